"""Every family against transformers in float32: the same experts, the same weights, the same logits, the same tokens.

The numbers were computed once by `make_expected`; the checkpoints are drawn again from their seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import EngineOptions
from engine.families import read_spec

from .answers import EXPECTED, Answer, Expected, ask, logits_of
from .cases import CASES
from .checkpoints import stackable, write
from .constants_latent import CONSTANTS as LATENT_CONSTANTS
from .constants_more import CONSTANTS as MORE_CONSTANTS

LOGITS_BOUND = 1e-3
"""Sums of float32 in another order: 1.3e-4 was measured at most, logits deviate by 3, and a wrong constant moves them
by more than twenty times this (`test_every_constant_shows`)."""

WEIGHTS_BOUND = 1e-4
"""9e-6 was measured at most."""

SMALL = EngineOptions(ram=2.0, cap=2)

Asked = Callable[[str], tuple[Expected, Answer]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Each case's expected and given answer, computed when first wanted."""
    known: dict[str, tuple[Expected, Answer]] = {}

    def of(name: str) -> tuple[Expected, Answer]:
        if name not in known:
            expected = Expected.load(name)
            folder = write(tmp_path_factory.mktemp(name) / "model", CASES[name])
            known[name] = expected, ask(folder, expected.prompt, expected.answer.greedy, SMALL)
        return known[name]

    return of


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_belong_to_the_case(name: str) -> None:
    stored = Expected.load(name)
    assert stored.fingerprint == CASES[name].fingerprint, "the case was changed: run tests.oracle.make_expected again"
    assert len(stored.prompt) == CASES[name].prompt


@pytest.mark.parametrize("name", CASES)
def test_logits(name: str, asked: Asked) -> None:
    expected, given = asked(name)
    assert given.logits.shape == expected.answer.logits.shape
    assert np.abs(given.logits - expected.answer.logits).max() < LOGITS_BOUND


@pytest.mark.parametrize("name", CASES)
def test_routing_at_every_position(name: str, asked: Asked) -> None:
    expected, given = asked(name)
    assert given.routes.keys() == expected.answer.routes.keys()
    for layer, (ids, weights) in expected.answer.routes.items():
        np.testing.assert_array_equal(given.routes[layer][0], ids)
        np.testing.assert_allclose(given.routes[layer][1], weights, rtol=0, atol=WEIGHTS_BOUND)


@pytest.mark.parametrize("name", CASES)
def test_greedy_tokens(name: str, asked: Asked) -> None:
    expected, given = asked(name)
    assert given.greedy == expected.answer.greedy


@pytest.mark.parametrize(
    ("name", "experts"),
    [
        (name, experts)
        for name, case in CASES.items()
        for experts in ("fused", "split")
        if not name.endswith("-long") and stackable(case, experts)
    ],
)
def test_stacked_experts_are_the_same_model(name: str, experts: Any, asked: Asked, tmp_path: Path) -> None:
    expected, given = asked(name)
    folder = write(tmp_path / "model", CASES[name], experts)
    np.testing.assert_array_equal(logits_of(folder, expected.prompt, SMALL), given.logits)


@pytest.mark.parametrize("name", CASES)
def test_a_config_saved_again_is_the_same_model(name: str) -> None:
    """transformers 5 writes other keys than the hub has: rope_parameters, num_local_experts, layer_types, dtype."""
    saved = json.loads((EXPECTED / "configs.json").read_text(encoding="utf-8"))[name]
    assert read_spec(saved) == read_spec(CASES[name].config)


CONSTANTS: list[tuple[str, dict[str, Any]]] = [
    ("olmoe", {"rope_theta": 500000.0}),
    ("olmoe", {"norm_topk_prob": True}),
    ("olmoe", {"num_experts_per_tok": 2}),
    ("olmoe-long", {"rms_norm_eps": 1e-5}),
    ("olmoe-long", {"clip_qkv": None}),
    ("olmoe-long", {"norm_topk_prob": False}),
    ("qwen2_moe-long", {"rope_scaling": None}),
    ("qwen2_moe-long", {"rope_theta": 10000.0}),
    ("qwen2_moe_mixed", {"norm_topk_prob": False}),
    ("qwen2_moe_mixed-long", {"use_sliding_window": False}),
    ("qwen2_moe_mixed-long", {"sliding_window": 10}),
    ("qwen2_moe_mixed-long", {"max_window_layers": 2}),
    ("qwen3_moe", {"norm_topk_prob": False}),
    ("qwen3_moe-long", {"sliding_window": 30}),
    ("qwen3_moe-long", {"rms_norm_eps": 1e-6}),
    ("qwen3_moe_mixed", {"rope_scaling": None}),
    ("qwen3_moe_mixed-long", {"rope_parameters": {"rope_type": "default", "rope_theta": 30000.0}}),
    ("mixtral", {"num_experts_per_tok": 3}),
    ("mixtral-long", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("mixtral_swa", {"sliding_window": None}),
    ("mixtral_swa-long", {"sliding_window": 51}),
    ("glm4_moe", {"partial_rotary_factor": 1.0}),
    ("glm4_moe", {"routed_scaling_factor": 1.0}),
    ("glm4_moe-long", {"n_group": 1, "topk_group": 1}),
    ("glm4_moe-long", {"topk_group": 1}),
    ("glm4_moe-long", {"norm_topk_prob": True}),
    ("glm4_moe_air-long", {"topk_group": 2}),
    ("dots1", {"routed_scaling_factor": 1.0}),
    ("dots1", {"norm_topk_prob": False}),
    ("dots1-long", {"max_window_layers": 3}),
    ("dots1-long", {"n_group": 7, "topk_group": 3}),
    *LATENT_CONSTANTS,
    *MORE_CONSTANTS,
]


@pytest.mark.parametrize(("name", "change"), CONSTANTS)
def test_every_constant_shows(name: str, change: dict[str, Any], asked: Asked, tmp_path: Path) -> None:
    """Were a constant of the config ignored, `test_logits` would see it: with another value the logits are others."""
    expected, given = asked(name)
    case = CASES[name]
    changed = {**case.config, **change}
    if "text_config" in case.config:
        changed = {**case.config, "text_config": {**case.config["text_config"], **change}}
    folder = write(tmp_path / "model", replace(case, config=changed))
    other = logits_of(folder, expected.prompt, SMALL)
    assert np.abs(other - given.logits).max() > 20 * LOGITS_BOUND


def test_a_head_beside_a_tied_embedding_is_used(tmp_path: Path, asked: Asked) -> None:
    """A config that ties the head though the checkpoint has its own: transformers 5 uses the head, and so do we."""
    expected, given = asked("olmoe")
    case = CASES["olmoe"]
    write(tmp_path, case)
    (tmp_path / "config.json").write_text(json.dumps({**case.config, "tie_word_embeddings": True}))
    np.testing.assert_array_equal(logits_of(tmp_path, expected.prompt, SMALL), given.logits)
