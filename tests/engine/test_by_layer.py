"""What the board tells layer by layer, and what the engine remembers of its last choices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine import Engine, EngineOptions, Turn
from engine.board import Counter, LayerCell
from engine.experts.trace_reader import TraceReader, read_layers
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

PROMPT = [(7 * n * n + 5 * n + 3) % 50 for n in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 16, "num_hidden_layers": 3}
    return write(tmp_path_factory.mktemp("by-layer") / "model", replace(olmoe, config=config))


def turn(engine: Engine, ids: list[int], tokens: int = 12) -> Turn:
    engine.forget()
    return next(e for e in engine.generate(ids, max_tokens=tokens, ignore_eos=True) if isinstance(e, Turn))


@pytest.mark.parametrize("cap", [3, 16])
def test_layers_sum_to_the_turn(model: Path, cap: int) -> None:
    with Engine.open(model, EngineOptions(cap=cap, threads=1, context=128)) as engine:
        turn(engine, PROMPT)
        second = turn(engine, PROMPT[::-1])
        cells, top_k = engine.board.by_layer, engine.info.top_k
    found = cells.sum(axis=0)
    assert tuple(found[[LayerCell.PIN, LayerCell.CACHE, LayerCell.DISK]]) == (0, second.hits.cache, second.hits.disk)
    prefill = found[[LayerCell.PREFILL_PIN, LayerCell.PREFILL_CACHE, LayerCell.PREFILL_DISK]]
    assert tuple(prefill) == (0, second.prefill_hits.cache, second.prefill_hits.disk)
    assert (cells[:, LayerCell.KEPT] == top_k).all()
    assert (cells[:, LayerCell.KEPT_ROWS] == second.tokens - 1).all()
    assert (cells[:, LayerCell.KEPT_SUM] == top_k * (second.tokens - 1)).all()


def test_kept_experts_follow_top_p(model: Path) -> None:
    with Engine.open(model, EngineOptions(topp=0.5, threads=1, context=128)) as engine:
        told = turn(engine, PROMPT)
        cells, top_k = engine.board.by_layer, engine.info.top_k
    assert (cells[:, LayerCell.KEPT] >= 1).all()
    assert cells[:, LayerCell.KEPT].max() < top_k
    mean = cells[:, LayerCell.KEPT_SUM].sum() / cells[:, LayerCell.KEPT_ROWS].sum()
    assert mean == pytest.approx(told.keff, abs=1e-3)


@pytest.mark.parametrize("cap", [4, 16])
def test_recent_choices_are_the_trace(model: Path, tmp_path: Path, cap: int) -> None:
    """Without a trace too: the same prompts choose the same experts."""
    path = tmp_path / "trace"
    with Engine.open(model, EngineOptions(cap=cap, threads=1, context=128, route_trace=str(path))) as engine:
        turn(engine, PROMPT)
        turn(engine, PROMPT[::-1])
    traced = read_layers(TraceReader(path))
    with Engine.open(model, EngineOptions(cap=cap, threads=1, context=128)) as engine:
        turn(engine, PROMPT)
        turn(engine, PROMPT[::-1])
        layers = engine.spec.moe_layers
        recent = engine.model.placement.recent.read(layers, [engine.info.top_k] * len(layers), engine.spec.experts)
        counters = engine.board.counters.copy()
    assert recent.keys() == traced.keys()
    found = wanted = 0
    for layer, known in traced.items():
        for field in ("calls", "rows", "ids"):
            assert np.array_equal(getattr(recent[layer], field), getattr(known, field))
        token = [known.ids[a:b] for a, b in zip(known.rows, known.rows[1:], strict=False)]
        starts, sizes = known.calls[:-1], np.diff(known.calls)
        for start in starts[(sizes == 1) & (starts > 0)]:
            found += len(set(token[start]) & set(token[start - 1]))
            wanted += len(token[start])
    assert (found, wanted) == (counters[Counter.PREVIOUS_FOUND], counters[Counter.PREVIOUS_WANTED])
