"""What an engine learns: warm starts, pins, their exchange, another profile; and that no token depends on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions, Event, Repin, Token, Turn
from engine.board import Counter, Tier
from engine.events import to_json
from engine.experts.policies import POLICIES
from engine.experts.usage import format_usage, read_usage
from engine.turn_log import log_path, read_turns
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

LAYERS, EXPERTS = 3, 16
PROMPT = [(7 * n * n + 5 * n + 3) % 50 for n in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": EXPERTS, "num_hidden_layers": LAYERS}
    return write(tmp_path_factory.mktemp("learning") / "model", replace(olmoe, config=config))


def history(path: Path, favourites: list[tuple[int, int]], count: int = 2000) -> Path:
    """Write a history in which the favourites were chosen so often, the first a little more, others hardly."""
    counts = np.ones((LAYERS, EXPERTS), np.uint32)
    for place, where in enumerate(favourites):
        counts[where] = count - place
    path.write_bytes(format_usage(counts, LAYERS, "olmoe"))
    return path


def opened(model: Path, **options: Any) -> Engine:
    return Engine.open(model, EngineOptions(threads=1, context=256, learn=False, **options))


def answer(engine: Engine, tokens: int = 12, prompt: list[int] = PROMPT) -> list[Event]:
    return list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))


def ids_of(events: list[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def pinned(engine: Engine) -> list[tuple[int, int]]:
    return [(layer, expert) for layer, expert in np.argwhere(engine.board.tier == Tier.PIN).tolist()]


FAVOURITES = [(0, 3), (1, 5), (2, 7), (0, 9), (1, 1), (2, 0)]


def test_no_token_depends_on_what_was_learned(model: Path, tmp_path: Path) -> None:
    with opened(model) as engine:
        expected = ids_of(answer(engine, 40))
    usage = str(history(tmp_path / "usage", FAVOURITES))
    ways: list[dict[str, Any]] = [{"policy": name} for name in POLICIES if name != "auto"]
    ways += [{}, {"usage": usage}, {"usage": usage, "pin": "auto", "pin_gb": 1.0, "repin": 5}]
    for way in ways:
        with opened(model, cap=4, **way) as engine:
            assert ids_of(answer(engine, 40)) == expected, way


def test_a_history_fills_the_cache_at_the_start(model: Path, tmp_path: Path) -> None:
    with opened(model, cap=2, usage=str(history(tmp_path / "usage", FAVOURITES))) as engine:
        engine._learning.ahead.finish()
        assert np.argwhere(engine.board.tier == Tier.CACHE).tolist() == sorted(map(list, FAVOURITES))
        progress = engine.board.counters[[Counter.WARM_DONE, Counter.WARM_TOTAL]]
        assert progress.tolist() == [len(FAVOURITES)] * 2
        engine.drop_experts()
        assert not (engine.board.tier == Tier.CACHE).any()
    with opened(model, cap=2, warm=False, usage=str(tmp_path / "usage")) as engine:
        engine._learning.ahead.finish()
        assert not (engine.board.tier == Tier.CACHE).any()


def test_where_all_experts_fit_all_are_loaded(model: Path, tmp_path: Path) -> None:
    usage = str(history(tmp_path / "usage", FAVOURITES))
    expected = None
    for way in ({}, {"usage": usage}, {"usage": usage, "pin": "auto"}, {"warm": False}):
        with opened(model, **way) as engine:
            if way.get("warm", True):
                engine._learning.ahead.finish()
                assert engine.model.placement.slot_of.min() >= 0, way
            turn = answer(engine)[-1]
            assert isinstance(turn, Turn)
            assert (turn.prefill_hits.disk == 0) == way.get("warm", True), way
        with opened(model, **way) as engine:  # answering while they come
            ids = ids_of(answer(engine, 40))
            expected = expected or ids
            assert ids == expected
            engine.drop_experts()
            engine.load_experts()
            assert engine.model.placement.slot_of.min() >= 0


def test_pins_are_planned_shown_and_counted(model: Path, tmp_path: Path) -> None:
    usage = str(history(tmp_path / "usage", FAVOURITES))
    with opened(model, cap=3, usage=usage, pin="auto", pin_gb=1.0) as engine:
        plan = engine.info.plan
        assert plan.pins == 36 * plan.slot_bytes  # all but 3 a layer, and 3 for those on their way through
        assert plan.slots * plan.slot_bytes == plan.pins + plan.cache
        assert plan.total == plan.dense + plan.kv + plan.runtime + plan.work + plan.pins + plan.cache
        assert any("pinned experts (36)" in notice for notice in engine.notices)
        engine._learning.ahead.finish()
        assert len(pinned(engine)) == 36
        assert set(FAVOURITES) <= set(pinned(engine))
        turn = answer(engine)[-1]
        assert isinstance(turn, Turn)
        assert turn.hits.pin > 0
        assert turn.hits.total == 11 * LAYERS * engine.info.top_k


def test_little_history_pins_nothing(model: Path, tmp_path: Path) -> None:
    usage = str(history(tmp_path / "usage", FAVOURITES, count=50))
    with opened(model, cap=3, usage=usage, pin="auto") as engine:
        assert engine.info.plan.pins == 0
        assert pinned(engine) == []


def test_a_named_file_is_trusted(model: Path, tmp_path: Path) -> None:
    usage = str(history(tmp_path / "usage", FAVOURITES, count=50))
    with opened(model, cap=3, pin=usage, pin_gb=1.0) as engine:
        assert engine.info.plan.pins > 0
    with pytest.raises(EngineError, match=r"--pin .*missing: no such file"):
        opened(model, pin=str(tmp_path / "missing"))


def some_pins(model: Path, favourites: list[tuple[int, int]], usage: Path, **options: Any) -> Engine:
    """An engine with room for six pins."""
    with opened(model, cap=3) as engine:
        slot_bytes = engine.info.plan.slot_bytes
    history(usage, favourites)
    engine = opened(model, cap=3, usage=str(usage), pin="auto", pin_gb=6.5 * slot_bytes / 1e9, **options)
    engine._learning.ahead.finish()
    return engine


def test_another_profile(model: Path, tmp_path: Path) -> None:
    with some_pins(model, FAVOURITES, tmp_path / "coding") as engine:
        assert sorted(pinned(engine)) == sorted(FAVOURITES)
        others = [(0, 3), (0, 4), (0, 5), (1, 5), (1, 6), (2, 2)]
        read = engine.board.counters.copy()
        assert engine.repin_for(history(tmp_path / "chat", others)) == []
        engine._learning.ahead.finish()
        assert sorted(pinned(engine)) == others
        told = {int(number) for number in np.flatnonzero(engine.board.counters != read)}
        assert told <= {Counter.EVICTIONS, Counter.WARM_DONE, Counter.WARM_TOTAL}  # nothing was a forward's
        assert engine.board.heat[0, 4] == 1999
        expected = ids_of(answer(engine))
    with opened(model) as engine:
        assert ids_of(answer(engine)) == expected


def test_pins_that_went_cold_are_exchanged_between_turns(model: Path, tmp_path: Path) -> None:
    with opened(model, cap=3) as engine:
        answer(engine, 40)
        unused = np.argwhere(engine.board.heat == 0).tolist() or np.argwhere(engine.board.heat < 3).tolist()
    cold = [(layer, expert) for layer, expert in unused][:6]
    with some_pins(model, cold, tmp_path / "usage", repin=20) as engine:
        events = answer(engine, 40)
        exchanges = [event for event in events if isinstance(event, Repin)]
        assert 1 <= len(exchanges) <= min(4, len({layer for layer, _ in cold}))
        assert isinstance(events[-1], Turn)
        for exchange in exchanges:
            assert engine.board.tier[exchange.layer, exchange.in_] == Tier.PIN
            assert engine.board.tier[exchange.layer, exchange.out] != Tier.PIN
            assert exchange.in_heat > exchange.out_heat + exchange.out_heat // 4 + 4
        assert to_json(exchanges[0]).keys() == {"event", "layer", "out", "in", "out_heat", "in_heat", "ms"}
        assert len(pinned(engine)) == 6


def test_every_turn_is_logged_beside_a_profiles_history(model: Path, tmp_path: Path) -> None:
    kept, other = tmp_path / "chat" / ".coli_usage", tmp_path / "coding" / ".coli_usage"
    options = EngineOptions(threads=1, context=256, cap=3, history=str(kept))
    with Engine.open(model, options) as engine:
        told = answer(engine)[-1]
        answer(engine, prompt=[*PROMPT, 4, 5])
        engine.repin_for(other)
        answer(engine)
        engine.repin_for(kept, learn=False)
        answer(engine)
    first, second = read_turns(log_path(kept))
    assert isinstance(told, Turn)
    assert (first.prompt, first.tokens, first.hits) == (len(PROMPT), 12, told.hits)
    assert first.bytes_read == told.bytes_read
    assert 0 < first.decode_bytes < first.bytes_read
    assert second.prompt == 2
    assert (second.cap, second.pinned) == (3, 0)
    assert len(read_turns(log_path(other))) == 1


def test_a_named_or_frozen_history_logs_nothing(model: Path, tmp_path: Path) -> None:
    for options in ({"usage": str(tmp_path / "usage")}, {"history": str(tmp_path / "history"), "learn": False}):
        with Engine.open(model, EngineOptions(threads=1, context=256, **options)) as engine:
            answer(engine)
    assert [path.name for path in tmp_path.iterdir()] == ["usage", "usage.lock"]


def test_an_old_habit_fades(model: Path, tmp_path: Path) -> None:
    usage = history(tmp_path / "usage", [(0, 3)])
    with Engine.open(model, EngineOptions(threads=1, context=256, usage=str(usage), usage_decay=0.5)) as engine:
        before = int(engine.board.heat[0, 3])
        answer(engine)
        now = int(engine.board.heat[0, 3])
    saved = read_usage(usage, LAYERS, EXPERTS, "olmoe", frozenset(range(LAYERS)))
    assert before == 2000
    assert saved.counts[0, 3] == (now + 1) // 2
