"""Latent attention and its indexer: whatever is scarce, and however a prompt is cut, an answer keeps every bit.

`tests.oracle` says that the answers are right; here they are compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine import Engine, EngineOptions
from engine.errors import UnsupportedModelError
from engine.families import read_spec
from tests.oracle import checkpoints, containers
from tests.oracle.answers import greedy
from tests.oracle.cases import CASES

LONG = [
    "deepseek_v2-long", "deepseek_v3-long", "deepseek_v32-long", "glm4_moe_lite-long", "glm_moe_dsa_shared-long",
]  # fmt: skip
"""Prompts of three tiles of keys and more; two of the models select keys."""

SPARSE = ["deepseek_v32-long", "glm_moe_dsa-long", "glm_moe_dsa_shared-long"]
PROMPT = 201

Folder = Callable[[str], Path]
Floats = npt.NDArray[np.float32]


def prompt_of(vocab: int, tokens: int = PROMPT) -> list[int]:
    """Any prompt that does not repeat soon."""
    return [(11 * n * n + 3 * n + 1) % vocab for n in range(tokens)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Models by name, written when first wanted; `name:int8` is a container."""
    known: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in known:
            case, _, fmt = name.partition(":")
            root = tmp_path_factory.mktemp(case)
            known[name] = (
                containers.write(root / fmt, CASES[case], fmt) if fmt else checkpoints.write(root / "hub", CASES[case])
            )
        return known[name]

    return of


def answer(folder: Path, options: EngineOptions) -> tuple[Floats, list[int]]:
    """Logits of a prompt, and the greedy tokens after it."""
    with Engine.open(folder, options) as engine:
        prompt = prompt_of(engine.spec.vocab)
        return engine.logits(prompt), greedy(engine, prompt, 6)


@pytest.mark.parametrize(
    ("name", "cache"),
    [
        *((name, "f32") for name in LONG),
        ("glm4_moe_lite-long", "f16"),
        ("deepseek_v32-long", "f16"),
        ("deepseek_v2_lite:int8", "f16"),
        ("glm_moe_dsa-long:int8", "f16"),
    ],
)
def test_portions_threads_and_residency(name: str, cache: str, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows one by one through one slot a layer; all rows at once with everything in memory; and in between."""
    monkeypatch.setattr("engine.plan.CHUNKS", (256,))
    logits, tokens = answer(folder(name), EngineOptions(kv=cache, threads=1))
    for chunk, threads, cap in ((1, 2, 1), (7, 3, 1), (64, 2, None)):
        monkeypatch.setattr("engine.plan.CHUNKS", (chunk,))
        other, same = answer(folder(name), EngineOptions(kv=cache, threads=threads, cap=cap))
        np.testing.assert_array_equal(other, logits)
        assert same == tokens


@pytest.mark.parametrize("name", [*SPARSE, "deepseek_v2_lite-long"])
def test_a_conversation_continued_is_a_conversation_read_afresh(name: str, folder: Folder) -> None:
    """Latents and index keys that were kept give what computing them again gives, also after a fork."""
    with Engine.open(folder(name), EngineOptions(cap=1)) as engine:
        prompt = prompt_of(engine.spec.vocab)
        first = greedy(engine, prompt[:90], 5)
        longer = [*prompt[:90], *first, *prompt[90:]]
        forked = [*prompt[:60], 9, 8, 7, *prompt[60:120]]
        kept = [greedy(engine, ids, 5) for ids in (longer, forked, longer)]
    fresh = []
    for ids in (longer, forked, longer):
        with Engine.open(folder(name), EngineOptions()) as engine:
            fresh.append(greedy(engine, ids, 5))
    assert kept == fresh


@pytest.mark.parametrize(("name", "dense"), [("deepseek_v32-long", "deepseek_v3"), ("deepseek_v32", "deepseek_v3")])
def test_a_selection_of_all_keys_is_no_selection(name: str, dense: str, tmp_path: Path) -> None:
    """V3.2 that may select everything is V3 with the same weights, bit for bit; one key fewer and it is not."""
    case = CASES[name]
    plain = replace(case, config={**case.config, "model_type": dense})
    tokens = 60
    answers = []
    for number, other in enumerate(
        (plain, *(replace(case, config={**case.config, "index_topk": best}) for best in (tokens, tokens - 1)))
    ):
        written = checkpoints.write(tmp_path / str(number), other)
        with Engine.open(written, EngineOptions()) as engine:
            answers.append(engine.logits(prompt_of(engine.spec.vocab, tokens)))
    everything, selected, fewer = answers
    np.testing.assert_array_equal(selected, everything)
    np.testing.assert_array_equal(fewer[:-1], everything[:-1])
    assert np.abs(fewer[-1] - everything[-1]).max() > 1e-4


def test_a_float16_cache_stays_close(folder: Folder) -> None:
    exact, _ = answer(folder("deepseek_v3-long"), EngineOptions(kv="f32"))
    halved, _ = answer(folder("deepseek_v3-long"), EngineOptions(kv="f16"))
    assert 0 < np.abs(halved - exact).mean() < 0.02


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("glm_moe_dsa_shared", {"indexer_types": ["shared", "full", "full", "full", "full"]}, "layer 0 has no indexer"),
        ("glm_moe_dsa_shared", {"indexer_types": ["full"]}, "indexer_types"),
        ("glm_moe_dsa_shared", {"indexer_types": ["full", "shared", "Full", "full", "full"]}, "indexer_types"),
        ("glm_moe_dsa", {"index_topk_pattern": "FSX"}, "indexer_types"),
        ("glm_moe_dsa", {"indexer_rope_interleave": False}, "indexer_rope_interleave"),
        ("glm_moe_dsa", {"q_lora_rank": None}, "q_lora_rank"),
        ("glm_moe_dsa", {"mlp_layer_types": ["dense"]}, "mlp_layer_types"),
        ("deepseek_v32", {"index_head_dim": 4}, "cannot rotate"),
        ("deepseek_v32", {"index_topk": 0}, "index_topk"),
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method"),
        ("deepseek_v2", {"topk_group": 4}, "groups"),
        ("deepseek_v2", {"topk_group": 1, "n_group": 12}, "groups"),
        ("deepseek_v3", {"scoring_func": "softmax"}, "scoring_func"),
        ("deepseek_v3", {"n_group": 12}, "groups"),
        ("deepseek_v3", {"rope_scaling": {"type": "yarn", "mscale_all_dim": -1.0, "factor": 40}}, "mscale_all_dim"),
        ("deepseek_v3", {"kv_lora_rank": None}, "kv_lora_rank"),
        ("glm4_moe_lite", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ],
)
def test_refused(name: str, change: dict[str, object], said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said):
        read_spec({**CASES[name].config, **change})


@pytest.mark.parametrize(
    ("change", "full"),
    [
        ({}, [True, True, True]),
        ({"index_topk_freq": 2}, [True, True, False]),
        ({"index_topk_freq": 2, "index_skip_topk_offset": 1}, [True, False, True]),
        ({"index_topk_freq": 0}, [True, True, True]),
        ({"index_topk_pattern": "FSS", "index_topk_freq": 2}, [True, False, False]),
        ({"index_topk_pattern": ["full", "full", "shared"]}, [True, True, False]),
        ({"indexer_types": ["full", "shared", "full"], "index_topk_pattern": "FFF"}, [True, False, True]),
    ],
)
def test_which_layers_have_an_indexer(change: dict[str, object], full: list[bool]) -> None:
    spec = read_spec({**CASES["glm_moe_dsa"].config, **change})
    assert [layer.attention.indexer is not None for layer in spec.layers] == full  # type: ignore[union-attr]
