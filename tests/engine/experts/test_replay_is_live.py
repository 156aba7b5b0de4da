"""A replayed trace hits and misses exactly as the engine that wrote it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import Engine, EngineOptions
from engine.board import Counter
from engine.experts.policies import POLICIES
from engine.experts.simulator import NOTHING, replay
from engine.experts.trace_reader import TraceReader, read_layers
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 16, "num_experts_per_tok": 3, "num_hidden_layers": 3}
    return write(tmp_path_factory.mktemp("replay") / "model", replace(olmoe, config=config))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cap", [1, 4, 11])
def test_replay_is_live(model: Path, tmp_path: Path, policy: str, cap: int) -> None:
    """Two turns: without a trace, so that native code notes hits by itself; the trace comes from another run."""
    prompt = [(7 * n * n + 5 * n + 3) % 50 for n in range(40)]

    def chat(**options: object) -> tuple[int, int]:
        name = None if policy == "auto" else policy
        with Engine.open(model, EngineOptions(cap=cap, policy=name, threads=1, context=512, **options)) as engine:  # type: ignore[arg-type]
            ids = list(prompt)
            for _ in range(2):
                for event in engine.generate(ids, max_tokens=60, ignore_eos=True):
                    if event.event == "token":
                        ids.append(event.id)  # type: ignore[union-attr]
                ids += prompt[:7]
            counters = engine.board.counters
            pairs = (Counter.HITS_CACHE, Counter.PREFILL_CACHE), (Counter.HITS_DISK, Counter.PREFILL_DISK)
            hits, misses = (sum(int(counters[counter]) for counter in pair) for pair in pairs)
            assert not counters[[Counter.HITS_PIN, Counter.PREFILL_PIN]].any()
            return hits, misses

    path = tmp_path / "trace"
    live = chat()
    assert chat(route_trace=str(path)) == live
    outcome = NOTHING
    for layer in read_layers(TraceReader(path)).values():
        outcome += replay(layer, policy, cap)
    assert (outcome.hits + outcome.prefill_hits, outcome.misses + outcome.prefill_misses) == live
