"""A replayed trace hits and misses exactly as a live engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine import Engine, EngineOptions, Token
from engine.board import Counter
from engine.experts.pins import rank
from engine.experts.policies import POLICIES
from engine.experts.simulator import NOTHING, replay
from engine.experts.trace_reader import LayerTrace, TraceReader, read_layers
from engine.experts.usage import format_usage
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

PROMPT = [(7 * n * n + 5 * n + 3) % 50 for n in range(40)]
LAYERS = 5
HITS = [Counter.HITS_CACHE, Counter.PREFILL_CACHE]
MISSES = [Counter.HITS_DISK, Counter.PREFILL_DISK]


HITS_AND_PINS = [[Counter.HITS_PIN, Counter.PREFILL_PIN], HITS, MISSES]


def chat(engine: Engine, of: list[list[Counter]]) -> tuple[int, ...]:
    """Two turns; returns sums of counters."""
    ids = list(PROMPT)
    for _ in range(2):
        ids += [event.id for event in engine.generate(ids, max_tokens=30, ignore_eos=True) if isinstance(event, Token)]
        ids += PROMPT[:7]
    counters = engine.board.counters
    return tuple(int(counters[some].sum()) for some in of)


def replayed(layers: Iterable[LayerTrace], policy: str, cap: int) -> tuple[int, int]:
    """Hits and misses of a replay."""
    outcome = sum((replay(layer, policy, cap) for layer in layers), NOTHING)
    return outcome.hits + outcome.prefill_hits, outcome.misses + outcome.prefill_misses


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 16, "num_hidden_layers": LAYERS}
    return write(tmp_path_factory.mktemp("replay") / "model", replace(olmoe, config=config))


@pytest.fixture(scope="module")
def layers(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[LayerTrace]:
    """The trace of the chat. It depends neither on the policy nor on the size of the cache."""
    path = tmp_path_factory.mktemp("trace") / "trace"
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=256, route_trace=str(path))) as engine:
        live = chat(engine, [HITS, MISSES])
    traced = list(read_layers(TraceReader(path)).values())
    assert replayed(traced, "auto", 5) == live
    return traced


@pytest.mark.parametrize(("policy", "cap"), [*((name, 5) for name in POLICIES), ("auto", 1), ("lru", 2), ("auto", 14)])
def test_replay_is_live(model: Path, layers: list[LayerTrace], policy: str, cap: int) -> None:
    """Without a trace: native code notes the tokens that miss nothing, and the policy is told of them later."""
    name = None if policy == "auto" else policy
    with Engine.open(model, EngineOptions(cap=cap, policy=name, threads=1, context=256)) as engine:
        assert replayed(layers, policy, cap) == chat(engine, [HITS, MISSES])


def test_pins_and_a_warm_start_too(model: Path, layers: list[LayerTrace], tmp_path: Path) -> None:
    counts = np.random.default_rng(3).integers(1, 3000, (LAYERS, 16)).astype(np.uint32)
    usage = tmp_path / "usage"
    usage.write_bytes(format_usage(counts, LAYERS, "olmoe"))
    options = {"usage": str(usage), "learn": False, "threads": 1, "context": 256}
    with Engine.open(model, EngineOptions(cap=4, **options)) as engine:
        slot = engine.info.plan.slot_bytes
    with Engine.open(model, EngineOptions(cap=4, pin=str(usage), pin_gb=5.5 * slot / 1e9, **options)) as engine:
        engine._learning.ahead.finish()
        pinned = engine.model.placement.pinned.copy()
        pins, *live = chat(engine, HITS_AND_PINS)
    assert pinned.sum() == 5
    ranking = rank(counts, range(LAYERS))
    parts = [
        replay(layer, "auto", 4, pinned[index], [expert for where, expert in ranking if where == index])
        for index, layer in enumerate(layers)
    ]
    outcome = sum(parts, NOTHING)
    assert outcome.hits + outcome.prefill_hits == pins + live[0]
    assert outcome.misses + outcome.prefill_misses == live[1]


@pytest.mark.parametrize("pins", [0, 5])
def test_the_curve_is_right_about_the_present(model: Path, tmp_path: Path, pins: int) -> None:
    """Within a point of what the same tokens really hit, though their first ones found an empty cache."""
    usage = tmp_path / "usage"
    usage.write_bytes(format_usage(np.arange(1, 81, dtype=np.uint32).reshape(LAYERS, 16), LAYERS, "olmoe"))
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=1024)) as engine:
        slot = engine.info.plan.slot_bytes
    pin = {"pin": str(usage), "pin_gb": (pins + 0.5) * slot / 1e9} if pins else {}
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=1024, **pin)) as engine:
        assert engine.memory_curve().tokens == 0
        list(engine.generate(PROMPT, max_tokens=150, ignore_eos=True))
        before = engine.board.counters.copy()
        list(engine.generate(PROMPT[::-1], max_tokens=400, ignore_eos=True))
        change = engine.board.counters - before
        curve = engine.memory_curve()
        plan = engine.info.plan
    live = change[[Counter.HITS_PIN, Counter.HITS_CACHE]].sum()
    rate = live / (live + change[Counter.HITS_DISK])
    here = curve.caps.index(5)
    assert curve.cap == 5
    assert abs(curve.rates["auto"][here] - rate) < 0.01
    assert curve.bytes[here] == plan.pins + LAYERS * 5 * plan.slot_bytes
    for name in ("lru", "min"):
        assert list(curve.rates[name]) == sorted(curve.rates[name])
    for rates in curve.rates.values():
        assert all(rate <= best + 0.02 for rate, best in zip(rates, curve.rates["min"], strict=True))
    assert curve.rates["auto"][-1] > 0.999  # where all fit, only what was never used is missed
    speeds = [speed for speed in curve.tok_s if speed is not None]
    assert speeds == sorted(speeds)
    assert len(speeds) == len(curve.caps)
