from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.replay import Replay, read_trace
from engine.errors import EngineError

TRACE = """\
0 0 1 3:0.6 1:0.4
0 1 1 2:0.7 3:0.3
1 0 2 5:0.6 0:0.4
1 1 2 4:0.9
2 0 1 1:0.5 2:0.5
3 0 2 5:1.0 4:0.0
"""


def test_a_prompt_is_replayed_token_by_token_and_then_the_answer(tmp_path: Path):
    trace, told = tmp_path / "trace", []
    trace.write_text(TRACE + "no line\n")
    replay = read_trace(trace, tmp_path / "frames", lambda done, size: told.append((done, size)))
    assert (len(replay), replay.layers, replay.experts) == (3, (1, 2), 6)
    assert told[-1][0] == told[-1][1] > 0
    assert np.argwhere(replay.sample().heat).tolist() == []
    replay.seek(1)
    assert np.argwhere(replay.sample().fired).tolist() == [[0, 1], [0, 3], [1, 0], [1, 5]]
    replay.seek(99)
    assert replay.position == 3
    assert replay.sample().heat.tolist() == [[0, 2, 2, 2, 0, 0], [1, 0, 0, 0, 2, 2]]


def test_what_is_no_trace_is_refused_by_name(tmp_path: Path):
    file = tmp_path / "poem"
    file.write_text("roses are red\n")
    with pytest.raises(EngineError, match=r"poem.*no route trace"):
        read_trace(file, tmp_path / "frames", lambda *_: None)


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(0, 2**32 - 1))
def test_going_on_and_back_counts_what_lies_before(places, seed):
    frames = np.random.default_rng(seed).integers(-1, 4, (12, 2, 3)).astype(np.int16)
    replay = Replay(frames, (0, 1), 4)
    for place in places:
        replay.seek(place)
    heat = np.zeros((2, 4), np.int64)
    for token in frames[: replay.position]:
        for layer in range(2):
            for expert in token[layer][token[layer] >= 0]:
                heat[layer, expert] += 1
    assert replay.sample().heat.tolist() == heat.tolist()
