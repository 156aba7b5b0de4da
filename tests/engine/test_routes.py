"""What the board tells of the last tokens' ways, checked against the trace and the turn's own sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine import Engine, EngineOptions, Token, Turn
from engine.board import Board, Counter, Tier
from engine.routes import NOBODY, RING
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

OLMOE = CASES["olmoe"]
PROMPT = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "tiny olmoe", OLMOE)


def traced(path: Path) -> dict[int, list[list[tuple[int, float]]]]:
    """Layer -> the choices of its one-row calls, in order."""
    calls: dict[int, list[tuple[int, list[tuple[int, float]]]]] = {}
    for line in path.read_text().splitlines():
        call, _, layer, *pairs = line.split()
        choice = [(int(pair.split(":")[0]), float(pair.split(":")[1])) for pair in pairs]
        calls.setdefault(int(call), []).append((int(layer), choice))
    layers: dict[int, list[list[tuple[int, float]]]] = {}
    for rows in calls.values():
        if len(rows) == 1:
            layers.setdefault(rows[0][0], []).append(rows[0][1])
    return layers


@pytest.mark.parametrize("options", [{"cap": 1}, {"cap": 1, "topp": 0.5}, {"cap": 1, "topk": 2}], ids=str)
def test_rows_say_what_the_trace_says(folder: Path, tmp_path: Path, options: dict[str, float]) -> None:
    trace = tmp_path / "trace"
    with Engine.open(folder, EngineOptions(route_trace=str(trace), **options)) as engine:
        events = list(engine.generate(PROMPT, max_tokens=6, ignore_eos=True))
        routes, layers = engine.board.routes, engine.info.moe_layers
        written = int(engine.board.counters[Counter.ROUTED])
        tokens = [event.id for event in events if isinstance(event, Token)]
        assert written == len(tokens) - 1
        assert routes.tokens[:written].tolist() == [[n + 1, token] for n, token in enumerate(tokens[:-1])]
        said = traced(trace)
        for layer in layers:
            for row in range(written):
                kept = routes.ids[row, layer] != NOBODY
                ids, gates = routes.ids[row, layer][kept].tolist(), routes.gates[row, layer][kept].tolist()
                assert ids == [expert for expert, _ in said[layer][row]]
                assert gates == pytest.approx([gate for _, gate in said[layer][row]], abs=1e-4)
        assert (routes.ids[written:] == NOBODY).all()


@pytest.mark.parametrize("cap", [1, 4, 64])
def test_tiers_add_up_to_the_turns_hits(folder: Path, cap: int) -> None:
    with Engine.open(folder, EngineOptions(cap=cap)) as engine:
        turn = list(engine.generate(PROMPT, max_tokens=9, ignore_eos=True))[-1]
        assert isinstance(turn, Turn)
        routes = engine.board.routes
        found = routes.found[routes.ids != NOBODY]
    tally = {tier: int(np.count_nonzero(found == tier)) for tier in Tier}
    assert (tally[Tier.PIN], tally[Tier.CACHE], tally[Tier.DISK]) == (turn.hits.pin, turn.hits.cache, turn.hits.disk)
    assert len(found) == turn.hits.total


def test_times_are_those_of_the_token(folder: Path) -> None:
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        turn = list(engine.generate(PROMPT, max_tokens=9, ignore_eos=True))[-1]
        routes = engine.board.routes
        rows = slice(0, int(engine.board.counters[Counter.ROUTED]))
        layers, waits, spent = routes.layer_ms[rows], routes.wait_ms[rows], routes.spent[rows]
    assert (layers > 0).all()
    assert (waits <= layers).all()
    assert waits.sum(axis=1) == pytest.approx(spent[:, 0], abs=0.01)
    assert (layers.sum(axis=1) <= spent.sum(axis=1) + 0.5).all()
    assert spent.sum() / 1000 == pytest.approx(turn.decode_s, rel=0.3, abs=0.05)


def test_the_ring_goes_round(folder: Path) -> None:
    with Engine.open(folder, EngineOptions()) as engine:
        list(engine.generate(PROMPT, max_tokens=RING + 4, ignore_eos=True))
        assert engine.board.counters[Counter.ROUTED] == RING + 3
        numbers = engine.board.routes.tokens[:, 0]
    assert sorted(numbers.tolist()) == list(range(4, RING + 4))
    assert numbers[0] == RING + 1


def test_two_processes_see_one_ring() -> None:
    ours = Board.create_shared(3, 8, 2)
    theirs = Board.attach(ours.name, 3, 8, 2)
    ours.routes.ids[5, 1] = 6, 7
    ours.routes.spent[RING - 1] = 1, 2, 3, 4
    assert theirs.routes.ids[5, 1].tolist() == [6, 7]
    assert theirs.routes.spent[RING - 1].tolist() == [1, 2, 3, 4]
    theirs.close()
    ours.close()
    assert theirs.routes.ids.size == 0
