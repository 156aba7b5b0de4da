"""config.json -> ModelSpec: what is read under which name, and numbers that cannot be are refused by their key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UnsupportedModelError
from engine.families import read_spec
from engine.model.rope import inverse_frequencies
from engine.model.spec import ModelSpec
from tests.oracle.cases import CASES

FAMILIES = [name for name in CASES if not name.endswith("-long")]


def changed(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A case's config with some values changed; `...` removes a key."""
    merged = {**CASES[name].config, **changes}
    return {key: value for key, value in merged.items() if value is not ...}


def nested(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A composite case's config with some values of its text model changed."""
    config = CASES[name].config
    return {**config, "text_config": {**config["text_config"], **changes}}


def spec_of(name: str, **changes: Any) -> ModelSpec:
    return read_spec(changed(name, changes))


def refusal(name: str, **changes: Any) -> str:
    with pytest.raises(UnsupportedModelError) as error:
        spec_of(name, **changes)
    text = str(error.value)
    assert text.startswith("config.json: ")
    assert text.isprintable()
    assert len(text) < 500
    return text


IMPOSSIBLE: list[tuple[str, str, Any]] = [
    *[("olmoe", "num_hidden_layers", value) for value in (0, -1, 5000, 2.0, "3", True, [3], None)],
    *[("olmoe", "hidden_size", value) for value in (0, 1 << 40, 47, None)],
    *[("olmoe", "vocab_size", value) for value in (0, None, "131")],
    *[("olmoe", "num_attention_heads", value) for value in (0, 5, None)],
    *[("olmoe", "num_experts", value) for value in (0, 2, 1 << 40, "9")],
    *[("olmoe", "num_experts_per_tok", value) for value in (0, 10, -3)],
    *[("olmoe", "intermediate_size", value) for value in (0, None)],
    *[("olmoe", "rms_norm_eps", value) for value in (-1e-5, 0, float("nan"), float("inf"), 2, "1e-5", True)],
    *[("olmoe", "rope_theta", value) for value in (0, -10000.0, float("nan"), 1e300, "1e4")],
    *[("olmoe", "clip_qkv", value) for value in (0, -1.0, "8")],
    *[("olmoe", "norm_topk_prob", value) for value in (1, "true")],
    *[("olmoe", "tie_word_embeddings", value) for value in (0, "false")],
    *[("olmoe", "max_position_embeddings", value) for value in (0, -1, 1e5)],
    *[("olmoe", "hidden_act", value) for value in ("gelu", "relu2", ["silu"], 3)],
    *[("qwen2_moe_mixed", "mlp_only_layers", value) for value in (3, "3", [3.0], [True], {"3": 1})],
    *[("qwen2_moe_mixed", "decoder_sparse_step", value) for value in (0, -2, 7)],
    *[("qwen3_moe", "head_dim", value) for value in (0, 21, -4)],
    *[("qwen3_moe", "num_key_value_heads", value) for value in (0, 3, 8)],
    *[("mixtral_swa", "sliding_window", value) for value in (0, -7, "7", 7.5)],
    *[("glm4_moe", "partial_rotary_factor", value) for value in (0, 0.01, 0.25, 1.5, "0.5")],
    *[("glm4_moe", "n_group", value) for value in (0, 2, 11)],
    *[("glm4_moe", "topk_group", value) for value in (0, 2)],
    *[("glm4_moe", "routed_scaling_factor", value) for value in (0, -2.5, float("nan"))],
    *[("glm4_moe", "first_k_dense_replace", value) for value in (-1, 3, 100)],
    *[("glm4_moe", "num_nextn_predict_layers", value) for value in (-1, 1 << 24)],
    *[("dots1", "layer_types", value) for value in ([], ["full_attention"] * 2, ["chunked"] * 3, "full", [["x"]] * 3)],
]


@pytest.mark.parametrize(("name", "key", "value"), IMPOSSIBLE)
def test_impossible_values(name: str, key: str, value: Any) -> None:
    refusal(name, **{key: value})


@pytest.mark.parametrize(
    ("name", "key", "value", "said"),
    [
        ("olmoe", "num_hidden_layers", 0, "num_hidden_layers is 0, expected a whole number 1..4096"),
        ("olmoe", "vocab_size", ..., "vocab_size is missing"),
        ("olmoe", "rms_norm_eps", -1.0, "rms_norm_eps is -1.0, expected a positive number up to 1"),
        ("olmoe", "hidden_act", "gelu", "hidden_act is 'gelu', only 'silu' is supported"),
        ("olmoe", "num_experts_per_tok", 10, "layer 0 chooses 10 of only 9 experts"),
        ("olmoe", "num_key_value_heads", 3, "4 heads cannot share 3 key/value heads"),
        ("olmoe", "hidden_size", 47, "hidden_size 47 is not a multiple of the 4 heads"),
        ("glm4_moe", "first_k_dense_replace", 9, "no layer with experts"),
        ("glm4_moe", "n_group", 3, "cannot choose 3 experts from 1 of 3 groups of 11 experts"),
        ("olmoe", "partial_rotary_factor", 0.5, "partial_rotary_factor 0.5"),
        ("olmoe", "max_position_embeddings", "x" * 10_000, "max_position_embeddings is 'xxx"),
    ],
)
def test_what_a_refusal_says(name: str, key: str, value: Any, said: str) -> None:
    assert said in refusal(name, **{key: value})


def test_groups_that_cannot_hold_the_chosen() -> None:
    """Groups of one expert have no two best, and one group of two cannot give three experts."""
    assert "groups" in refusal("dots1", n_group=12, topk_group=6)
    assert "groups" in refusal("dots1", n_group=6, topk_group=1)
    assert spec_of("dots1", n_group=6, topk_group=2).mixture(1).router.top_groups == 2


SCALINGS: list[Any] = [
    {"rope_type": "axial", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0},
    {"type": "su"},
    {"type": "linear"},
    {"type": "linear", "factor": 0},
    {"type": "linear", "factor": "2"},
    {"type": "linear", "factor": True},
    {"type": "yarn", "factor": -4.0},
    {"type": "yarn", "factor": 4.0, "beta_fast": -1},
    {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0},
    {"type": "yarn", "factor": 4.0, "attention_factor": 0},
    {"full_attention": {"rope_type": "default", "rope_theta": 1e6}},
    "yarn",
    [1],
]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_rotary_scalings_that_are_not_computed(scaling: Any) -> None:
    assert "rope_scaling" in refusal("qwen3_moe", rope_scaling=scaling)


def test_yarn_over_a_base_that_has_no_wavelengths() -> None:
    assert "rope_theta 1 is too small" in refusal("qwen3_moe_mixed", rope_theta=1.0)


@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if "rope_theta" in CASES[name].config and name != "gpt_oss"]
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_nothing_is_scaled_by_default(name: str, key: str) -> None:
    plain = spec_of(name, rope_scaling=...)
    for value in (None, {}, {"rope_type": "default"}):
        assert spec_of(name, **{"rope_scaling": ..., key: value}) == plain


def test_gpt_oss_is_scaled_by_default() -> None:
    yarn = {
        "type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096,
    }  # fmt: skip
    scaled = spec_of("gpt_oss", rope_scaling=yarn).layers[0].attention.rope
    for value in (..., None):
        rope = spec_of("gpt_oss", rope_scaling=value).layers[0].attention.rope
        for got, wanted in zip(inverse_frequencies(rope), inverse_frequencies(scaled), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_phimoe_ends_where_its_other_rope_factor_begins() -> None:
    config = CASES["phimoe"].config
    same = {**config["rope_scaling"], "long_mscale": config["rope_scaling"]["short_mscale"]}
    other = {**same, "long_mscale": 9.0}
    assert spec_of("phimoe", rope_scaling=other, original_max_position_embeddings=64).max_context == 64
    assert spec_of("phimoe", rope_scaling=same).max_context == config["max_position_embeddings"]


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({"factor": 4.0}, (1 + math.log(4) / math.log(1024)) ** 0.5),
        ({}, (1 + math.log(40960 / 1024) / math.log(1024)) ** 0.5),
        ({"factor": 1.0}, 1.0),
        ({"factor": 4.0, "attention_factor": 1.3}, 1.3),
    ],
)
def test_longrope_multiplies_by_what_its_factor_asks_for(changes: dict[str, Any], factor: float) -> None:
    """As transformers' `_compute_longrope_parameters`; its long factors hold past the original context, for all."""
    short = [1.0 + index / 4 for index in range(10)]
    scaling = {"type": "longrope", "short_factor": short, "original_max_position_embeddings": 1024, **changes}
    spec = spec_of("qwen3_moe", rope_scaling={**scaling, "long_factor": [9.0] * 10})
    plain, _ = inverse_frequencies(spec_of("qwen3_moe").layers[0].attention.rope)
    frequencies, multiplier = inverse_frequencies(spec.layers[0].attention.rope)
    np.testing.assert_allclose(frequencies, plain / np.array(short), rtol=1e-6)
    assert multiplier == pytest.approx(factor)
    assert spec.max_context == 1024
    assert spec_of("qwen3_moe", rope_scaling={**scaling, "long_factor": short}).max_context == 40960


def test_dynamic_scaling_begins_where_the_context_ends() -> None:
    spec = spec_of("qwen3_moe", rope_scaling={"type": "dynamic", "factor": 2.0}, max_position_embeddings=512)
    scaled, plain = (inverse_frequencies(each.layers[0].attention.rope) for each in (spec, spec_of("qwen3_moe")))
    np.testing.assert_array_equal(scaled[0], plain[0])
    assert (scaled[1], spec.max_context) == (1.0, 512)


def test_rope_parameters_come_before_the_older_keys() -> None:
    newer = spec_of("qwen3_moe", rope_theta=5.0, rope_parameters={"rope_type": "default", "rope_theta": 7.0})
    assert newer == spec_of("qwen3_moe", rope_theta=7.0)


@pytest.mark.parametrize("name", ["olmoe", "qwen2_moe", "qwen3_moe", "mixtral", "glm4_moe", "dots1"])
def test_the_number_of_experts_under_any_of_its_names(name: str) -> None:
    keys = ("num_experts", "n_routed_experts", "num_local_experts")
    (own,) = [key for key in keys if key in CASES[name].config]
    count = CASES[name].config[own]
    for key in keys:
        assert spec_of(name, **{own: ..., key: count}) == spec_of(name)
        assert "contradict" in refusal(name, **{own: count, next(k for k in keys if k != own): count + 1})


def windows(spec: ModelSpec) -> list[int | None]:
    return [layer.attention.window for layer in spec.layers]  # type: ignore[union-attr]


def test_sliding_windows() -> None:
    sliding = {"use_sliding_window": True, "sliding_window": 9}
    assert windows(spec_of("qwen2_moe_mixed", **sliding, max_window_layers=4)) == [9, None, 9, None, None, None]
    assert windows(spec_of("qwen3_moe", **sliding, max_window_layers=1)) == [9, 9, 9]
    assert windows(spec_of("qwen3_moe", sliding_window=9)) == [None] * 3
    assert windows(spec_of("mixtral", sliding_window=9)) == [9] * 3
    assert windows(spec_of("dots1", sliding_window=9, max_window_layers=2)) == [None, None, 9]
    assert windows(spec_of("dots1", sliding_window=9)) == [None] * 3
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    assert windows(spec_of("dots1", sliding_window=9, layer_types=kinds)) == [9, None, 9]
    assert windows(spec_of("qwen2_moe", **sliding, layer_types=kinds)) == [9, None, 9]
    assert "no sliding_window" in refusal("dots1", sliding_window=None, layer_types=kinds)
    assert "no sliding_window" in refusal("qwen2_moe", sliding_window=9, layer_types=kinds)


def test_which_layers_have_experts() -> None:
    assert spec_of("qwen2_moe_mixed").moe_layers == (1, 5)
    assert spec_of("qwen3_moe_mixed").moe_layers == (1, 3)
    assert spec_of("glm4_moe", first_k_dense_replace=...).moe_layers == (1, 2)
    assert spec_of("dots1", first_k_dense_replace=...).moe_layers == (0, 1, 2)


wild = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text("silu1", max_size=5), st.lists(st.integers(-1, 9))
)


@st.composite
def any_config(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(FAMILIES))
    text = CASES[name].config.get("text_config", CASES[name].config)
    keys = [key for key in text if key != "model_type"]
    changes = draw(st.dictionaries(st.sampled_from(keys), wild, max_size=4))
    return nested(name, changes) if "text_config" in CASES[name].config else changed(name, changes)


@settings(deadline=None)
@given(any_config())
def test_any_value_is_read_or_refused(config: dict[str, Any]) -> None:
    """Whatever a key holds: a spec, or one line that says no."""
    said = ""
    try:
        assert read_spec(config).moe_layers
    except UnsupportedModelError as error:
        said = str(error)
    assert said.isprintable()
