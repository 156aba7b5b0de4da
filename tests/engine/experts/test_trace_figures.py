"""What is computed from route traces: pairs, look-ahead, statistics. Checked against a plain count."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from engine.errors import EngineError
from engine.experts import pairs, trace_reader
from engine.experts.lookahead import Lookahead
from engine.experts.pairs import write_pairs
from engine.experts.trace_reader import Lines, TraceReader, whole_forwards
from engine.experts.trace_stats import TraceStats
from tests.engine.experts.traces import Row, trace_of, traces, write_trace


def plain_pairs(rows: list[Row]) -> bytes:
    """The same file, counted line by line."""
    counts: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    forward: dict[tuple[int, int], list[int]] = {}
    last = (-1, -1)
    for call, row, layer, chosen in rows:
        if layer <= last[0] and call != last[1]:
            forward.clear()
        last = layer, call
        forward[layer, row] = chosen
        for distance in (1, 2):
            for expert in forward.get((layer - distance, row), []):
                followers = counts[layer - distance, distance, expert]
                for follower in chosen:
                    followers[follower] = followers.get(follower, 0) + 1
    lines = []
    for (layer, distance, expert), followers in sorted(counts.items()):
        best = sorted(followers.items(), key=lambda item: -item[1])[:16]
        lines.append(f"{layer} {distance} {expert} " + " ".join(f"{follower}:{count}" for follower, count in best))
    return "".join(f"{line}\n" for line in [f"COLIPAIRS 1 {len(lines)}", *lines]).encode()


def test_a_file_of_pairs(tmp_path: Path) -> None:
    rows = trace_of([{0: [[5, 2], [3]], 1: [[7, 1], [7]], 3: [[0], [0]]}, {0: [[5]], 1: [[1]]}])
    assert write_pairs(TraceReader(write_trace(tmp_path / "trace", rows)), tmp_path / ".coli_pairs") == 5
    assert (tmp_path / ".coli_pairs").read_bytes() == (
        b"COLIPAIRS 1 5\n0 1 2 7:1 1:1\n0 1 3 7:1\n0 1 5 1:2 7:1\n1 2 1 0:1\n1 2 7 0:2\n"
    )


def test_sixteen_followers_at_most(tmp_path: Path) -> None:
    rows = trace_of([{0: [[0]], 1: [list(range(30, 0, -1))]}, {0: [[0]], 1: [[4, 9]]}])
    write_pairs(TraceReader(write_trace(tmp_path / "trace", rows)), tmp_path / "pairs")
    line = (tmp_path / "pairs").read_text().splitlines()[1]
    assert line == "0 1 0 9:2 4:2 " + " ".join(f"{expert}:1" for expert in range(30, 16, -1))


@settings(deadline=None)
@given(rows=traces)
def test_pairs_are_those_of_a_plain_count(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    """Whatever the blocks the file is read in."""
    folder = tmp_path_factory.mktemp("pairs")
    path = write_trace(folder / "trace", rows)
    for block in (1 << 20, 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trace_reader, "BLOCK", block)
            write_pairs(TraceReader(path), folder / "pairs")
        assert (folder / "pairs").read_bytes() == plain_pairs(rows)


def test_pairs_of_too_many_experts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "CELLS_MAX", 1000)
    path = write_trace(tmp_path / "trace", trace_of([{0: [[40]], 1: [[3]]}]))
    with pytest.raises(EngineError, match="too many experts"):
        write_pairs(TraceReader(path), tmp_path / "pairs")
    assert not (tmp_path / "pairs").exists()


def lines_of(rows: list[Row], tmp_path: Path) -> list[Lines]:
    return list(whole_forwards(TraceReader(write_trace(tmp_path / "trace", rows))))


def test_recall_of_the_token_before(tmp_path: Path) -> None:
    """Of 2 + 2 + 3 experts that had a token before them, 1 + 2 + 1 were among its choice."""
    rows = trace_of([{0: [[1, 2], [2, 3]]}, {0: [[3, 2]]}, {0: [[3, 5, 6]]}])
    lookahead = Lookahead()
    for lines in lines_of(rows, tmp_path):
        lookahead.add(lines)
    assert lookahead.previous_token == 4 / 7
    assert lookahead.layers_on(1) is None


def test_recall_by_pairs_is_that_of_a_guess_made_before(tmp_path: Path) -> None:
    """Nothing can be guessed the first time, everything the second; the third time the guess is wrong."""
    rows = trace_of([{0: [[1]], 1: [[4, 5]]}, {0: [[1]], 1: [[5, 4]]}, {0: [[1]], 1: [[6, 7]]}])
    lookahead = Lookahead()
    for lines in lines_of(rows, tmp_path):
        lookahead.add(lines)
    assert lookahead.layers_on(1) == 2 / 6
    assert lookahead.layers_on(2) is None


@settings(deadline=None)
@given(rows=traces)
def test_statistics_are_those_of_a_plain_count(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = write_trace(tmp_path_factory.mktemp("stats") / "trace", rows)
    stats = TraceStats()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_reader, "BLOCK", 50)
        for lines in TraceReader(path):
            stats.add(lines)
    assert set(stats.layers) == {layer for _, _, layer, _ in rows}
    for index, layer in stats.layers.items():
        mine = [(call, row, chosen) for call, row, at, chosen in rows if at == index]
        every = [expert for _, _, chosen in mine for expert in chosen]
        calls = [call for call, _, _ in mine]
        assert layer.tokens == len(mine)
        assert layer.forwards == len(set(calls))
        assert layer.prefills == sum(calls.count(call) > 1 for call in set(calls))
        assert layer.choices == len(every)
        assert layer.used == len(set(every))
        assert layer.counts.tolist() == [every.count(expert) for expert in range(max(every) + 1)]
        for tokens in (1, 2, 5):
            assert layer.touched(tokens) == len({expert for _, _, chosen in mine[:tokens] for expert in chosen})


def test_shares(tmp_path: Path) -> None:
    rows = trace_of([{0: [[0]] * 6 + [[1]] * 2 + [[2], [3]]}])
    stats = TraceStats()
    for lines in lines_of(rows, tmp_path):
        stats.add(lines)
    layer = stats.layers[0]
    assert [layer.cover(share) for share in (0.5, 0.6, 0.61, 0.9, 1.0)] == [1, 1, 2, 3, 4]
    assert layer.top_quarter == 0.6
    share = np.array([0.6, 0.2, 0.1, 0.1])
    assert math.isclose(layer.entropy, -(share * np.log(share)).sum() / math.log(4))
