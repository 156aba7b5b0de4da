from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.replay import OPTIMUM, POLICIES, Placement, Replay, Simulation, present
from colibri_tui.replay_host import Frames, simulate
from colibri_tui.replay_link import ReplayLink
from colibri_tui.telemetry import Telemetry
from engine.board import Tier
from engine.errors import EngineError
from engine.experts.simulator import NOTHING, optimum
from engine.experts.simulator import replay as simulated
from engine.experts.trace_reader import TraceReader, read_layers
from engine.options import EngineOptions
from tests.tui.boards import lived_in
from tests.tui.scripted_link import READY

TRACE = """\
0 0 1 3:0.6 1:0.4
0 1 1 2:0.7 3:0.3
1 0 2 5:0.6 0:0.4
1 1 2 4:0.9
2 0 1 1:0.5 2:0.5
3 0 2 5:1.0 4:0.0
"""


def read(trace: Path, progress=lambda *_: None) -> Replay:
    link = ReplayLink(trace)
    try:
        return link.read(progress)
    finally:
        link.close()


def test_a_prompt_is_replayed_token_by_token_and_then_the_answer(tmp_path: Path):
    trace, told = tmp_path / "trace", []
    trace.write_text(TRACE + "no line\n")
    replay = read(trace, lambda done, size: told.append((done, size)))
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
        read(file)


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


def chat_trace(seed: int, turns: int = 6, layers=(1, 2, 4), experts: int = 12) -> str:
    """Prompts and answers whose tokens resemble each other."""
    rng, lines, call = np.random.default_rng(seed), [], 0
    for _ in range(turns):
        likely = rng.permutation(experts)
        for rows in [int(rng.integers(2, 6)), *[1] * int(rng.integers(3, 9))]:
            for layer in layers:
                for row in range(rows):
                    places = np.unique(np.minimum(rng.geometric(0.35, 3) - 1, experts - 1))
                    pairs = " ".join(f"{likely[place]}:0.5" for place in places)
                    lines.append(f"{call} {row} {layer} {pairs}")
                call += 1
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ReplayLink, Replay]]:
    """A trace, and the child that has read it."""
    trace = tmp_path_factory.mktemp("recorded") / "trace"
    trace.write_text(chat_trace(4))
    link = ReplayLink(trace)
    yield trace, link, link.read(lambda *_: None, ((0, 1, 2, 3, 4), 16))
    link.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_simulated_is_what_the_simulator_counts(policy: str, recorded: tuple[Path, ReplayLink, Replay]):
    trace, link, replay = recorded
    placement = Placement(policy, 4, ((1, 3), (4, 0), (4, 11)))
    replay.take(link.simulate(replay, placement))
    alone = link.simulate(replay, Placement(policy, 3))
    assert replay.experts == 16
    replay.seek(len(replay))
    pinned = {layer: np.isin(np.arange(16), [e for at, e in placement.pinned if at == layer]) for layer in (1, 2, 4)}
    traced = {layer: one._replace(experts=16) for layer, one in read_layers(TraceReader(trace)).items()}
    alone.seek(len(replay))
    if policy == OPTIMUM:
        outcome = sum((optimum(one, 3) for one in traced.values()), NOTHING)
        assert (alone.decode.cache, alone.decode.disk) == (outcome.hits, outcome.misses)
        assert (alone.prefill.cache, alone.prefill.disk) == (outcome.prefill_hits, outcome.prefill_misses)
    else:
        outcome = sum((simulated(one, policy, 4, pinned[layer]) for layer, one in traced.items()), NOTHING)
        decode, prefill = replay.simulation.decode, replay.simulation.prefill
        assert (decode.pin + decode.cache, decode.disk) == (outcome.hits, outcome.misses)
        assert (prefill.pin + prefill.cache, prefill.disk) == (outcome.prefill_hits, outcome.prefill_misses)
        assert replay.simulation.decode.pin > 0
    tier = replay.sample().tier
    assert np.argwhere(tier == Tier.PIN).tolist() == [[0, 3], [2, 0], [2, 11]]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=8),
    st.integers(0, 99),
    st.sampled_from(POLICIES),
    st.integers(1, 12),
)
def test_going_back_shows_what_going_on_had_shown(places, seed, policy, cap):
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 1, 1, 4], 20)
    ids = rng.permuted(np.tile(np.arange(12), (int(rows.sum()), 2, 1)), axis=2)[..., :3].astype(np.int16)
    frames = Frames(ids, [0, 1], np.repeat(np.arange(len(rows)), rows))
    found = simulate(frames, Placement(policy, cap), 12)

    def fresh() -> Replay:
        replay = Replay(ids, (0, 1), 12)
        replay.take(Simulation(Placement(policy, cap), np.zeros((2, 12), np.bool_), **found))
        return replay

    replay = fresh()
    for place in places:
        replay.seek(place)
    here, other = replay.sample(), fresh()
    for _ in range(replay.position):
        other.seek(other.position + 1)
    assert here.tier.tolist() == other.sample().tier.tolist()
    assert here.found.tolist() == other.sample().found.tolist()


def test_the_tiers_are_where_the_newest_token_found_its_experts():
    ids = np.array([[[0]], [[1]], [[0]], [[0]]], np.int16)
    frames = Frames(ids, [7], np.arange(4))
    replay = Replay(ids, (7,), 2)
    replay.take(Simulation(Placement("lru", 1), np.zeros((1, 2), np.bool_), **simulate(frames, Placement("lru", 1), 2)))
    disk, cache = Tier.DISK, Tier.CACHE
    for position, tiers in enumerate([[disk, disk], [disk, disk], [disk, disk], [disk, disk], [cache, disk]]):
        replay.seek(position)
        assert replay.sample().tier.tolist() == [tiers]
    assert replay.simulation.newest.cache == 1
    assert replay.sample().found.tolist() == [[0, 1, 3]]


def test_the_present_placement_is_that_of_the_engine():
    board = lived_in(4, 8)
    sample = Telemetry(board, (1, 2)).sample(live=False)
    placement = present(READY, EngineOptions(policy="lfu"), sample)
    assert (placement.policy, placement.cap) == ("lfu", READY.plan.cap)
    assert set(placement.pinned) == {
        (layer, e) for layer in (1, 2) for e in range(8) if board.tier[layer, e] == Tier.PIN
    }
    assert present(READY, EngineOptions(), sample).policy == "auto"
