"""A replayed trace hits and misses exactly as a live engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Engine, EngineOptions, Token
from engine.board import Counter
from engine.experts.policies import POLICIES
from engine.experts.simulator import NOTHING, replay
from engine.experts.trace_reader import LayerTrace, TraceReader, read_layers
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

PROMPT = [(7 * n * n + 5 * n + 3) % 50 for n in range(40)]
HITS = [Counter.HITS_CACHE, Counter.PREFILL_CACHE]
MISSES = [Counter.HITS_DISK, Counter.PREFILL_DISK]


def chat(engine: Engine) -> tuple[int, int]:
    """Two turns; returns hits and misses."""
    ids = list(PROMPT)
    for _ in range(2):
        ids += [event.id for event in engine.generate(ids, max_tokens=30, ignore_eos=True) if isinstance(event, Token)]
        ids += PROMPT[:7]
    counters = engine.board.counters
    return int(counters[HITS].sum()), int(counters[MISSES].sum())


def replayed(layers: Iterable[LayerTrace], policy: str, cap: int) -> tuple[int, int]:
    """Hits and misses of a replay."""
    outcome = sum((replay(layer, policy, cap) for layer in layers), NOTHING)
    return outcome.hits + outcome.prefill_hits, outcome.misses + outcome.prefill_misses


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 16, "num_hidden_layers": 2}
    return write(tmp_path_factory.mktemp("replay") / "model", replace(olmoe, config=config))


@pytest.fixture(scope="module")
def layers(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[LayerTrace]:
    """The trace of the chat. It depends neither on the policy nor on the size of the cache."""
    path = tmp_path_factory.mktemp("trace") / "trace"
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=256, route_trace=str(path))) as engine:
        live = chat(engine)
    traced = list(read_layers(TraceReader(path)).values())
    assert replayed(traced, "auto", 5) == live
    return traced


@pytest.mark.parametrize(("policy", "cap"), [*((name, 5) for name in POLICIES), ("auto", 1), ("lru", 2), ("auto", 14)])
def test_replay_is_live(model: Path, layers: list[LayerTrace], policy: str, cap: int) -> None:
    """Without a trace: native code notes the tokens that miss nothing, and the policy is told of them later."""
    name = None if policy == "auto" else policy
    with Engine.open(model, EngineOptions(cap=cap, policy=name, threads=1, context=256)) as engine:
        assert replayed(layers, policy, cap) == chat(engine)
