"""The switches that use fewer experts do exactly what they say, checked on a model's first router, whose input they
cannot change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from engine import Engine, EngineOptions
from engine.experts.pairs import write_pairs
from engine.experts.trace_reader import TraceReader
from engine.options import Lossy
from tests.oracle.answers import Expected
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

MODELS = ["olmoe", "qwen3_moe", "mixtral", "glm4_moe", "glm4_moe-long"]


class Chosen(NamedTuple):
    """One router's decisions: in order of selection, the first `kept` of them used."""

    ids: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    kept: npt.NDArray[np.int32]


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, write(tmp_path_factory.mktemp("models") / request.param, CASES[request.param])


def first_choices(model: tuple[str, Path], **lossy: Any) -> Chosen:
    """What the first router chooses over the prompt, which is read in one block."""
    name, folder = model
    seen: list[Chosen] = []

    def listen(_: int, ids: npt.NDArray[Any], weights: npt.NDArray[Any], kept: npt.NDArray[Any]) -> None:
        seen.append(Chosen(ids.copy(), weights.copy(), kept.copy()))

    with Engine.open(folder, EngineOptions(cap=2, **lossy)) as engine:
        engine.logits(Expected.load(name).prompt, listen)
        assert len(seen) == len(engine.info.moe_layers)
    return seen[0]


def renormalised(name: str) -> bool:
    config = CASES[name].config
    return bool(config["model_type"] == "mixtral" or config["norm_topk_prob"])


def scaling(name: str) -> float:
    return float(CASES[name].config.get("routed_scaling_factor", 1.0))


@pytest.mark.parametrize("limit", [1, 2])
def test_top_k(model: tuple[str, Path], limit: int) -> None:
    """The first of those that would have been chosen; weights renormalised over them where the model does so."""
    name, _ = model
    full, cut = first_choices(model), first_choices(model, topk=limit)
    assert (full.kept == full.ids.shape[1]).all()
    assert cut.ids.shape == (len(full.ids), limit)
    assert (cut.kept == limit).all()
    np.testing.assert_array_equal(cut.ids, full.ids[:, :limit])
    wanted = full.weights[:, :limit]
    if renormalised(name):
        wanted = wanted / wanted.sum(axis=1, keepdims=True) * scaling(name)
    np.testing.assert_allclose(cut.weights, wanted, rtol=2e-6)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.8, 0.99])
def test_top_p(model: tuple[str, Path], share: float) -> None:
    """The shortest prefix, by descending weight, that holds the share of the chosen experts' weight."""
    name, _ = model
    full, cut = first_choices(model), first_choices(model, topp=share)
    for row in range(len(full.ids)):
        order = np.argsort(-full.weights[row], kind="stable")
        ids, weights = full.ids[row][order], full.weights[row][order].astype(np.float64)
        reached = np.cumsum(weights) / weights.sum()
        if np.abs(reached - share).min() < 1e-6:
            continue  # a rounding error decides
        count = int(np.searchsorted(reached, share)) + 1
        assert cut.kept[row] == count
        np.testing.assert_array_equal(cut.ids[row, :count], ids[:count])
        wanted = weights[:count]
        if renormalised(name):
            wanted = wanted / wanted.sum() * scaling(name)
        np.testing.assert_allclose(cut.weights[row, :count], wanted, rtol=2e-6)
    assert 1 <= cut.kept.min() <= cut.kept.max() <= full.ids.shape[1]


def test_the_order_of_selection(model: tuple[str, Path]) -> None:
    """Without a correction bias that is the order of weights; with one it need not be."""
    name, _ = model
    full = first_choices(model)
    descending = (np.diff(full.weights, axis=1) <= 0).all()
    assert descending == (not name.startswith("glm4"))


def test_what_is_learned_under_other_limits_is_what_was_chosen(model: tuple[str, Path], tmp_path: Path) -> None:
    """The profile's pairs are those of the trace, whose lines are as long as the limit at their time says."""
    trace, history = tmp_path / "trace", tmp_path / ".coli_usage"
    options = EngineOptions(threads=1, cap=3, context=256, history=str(history), route_trace=str(trace))
    with Engine.open(model[1], options) as engine:
        prompt = Expected.load(model[0]).prompt
        for topk in (None, 1, None, 2):
            engine.limit(Lossy(topk, None))
            for _ in range(2):
                engine.forget()
                assert list(engine.generate(prompt, max_tokens=9, ignore_eos=True))
    write_pairs(TraceReader(trace), tmp_path / "expected")
    assert (tmp_path / ".coli_pairs").read_bytes() == (tmp_path / "expected").read_bytes()
