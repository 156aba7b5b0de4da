"""Configs of the families that have keys of their own: what they say, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import UnsupportedModelError
from engine.families import read_spec
from engine.model.spec import Attention, Mixture, ModelSpec
from tests.oracle.cases import CASES


def spec_of(name: str, **changes: Any) -> ModelSpec:
    """A case's config, or its text model's, with some values changed; `...` removes a key."""
    config = CASES[name].config
    text = config.get("text_config", config)
    merged = {key: value for key, value in {**text, **changes}.items() if value is not ...}
    return read_spec({**config, "text_config": merged} if "text_config" in config else merged)


def attentions(spec: ModelSpec) -> list[Attention]:
    found = [layer.attention for layer in spec.layers]
    assert all(isinstance(kind, Attention) for kind in found)
    return found  # type: ignore[return-value]


ROPES = {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
}


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("gemma4", {"enable_moe_block": False}, "no experts"),
        ("gemma4", {"enable_moe_block": ...}, "no experts"),
        ("gemma4", {"hidden_size_per_layer_input": 256}, "hidden_size_per_layer_input is 256"),
        ("gemma4", {"hidden_size_per_layer_input": ...}, "hidden_size_per_layer_input"),
        ("gemma4", {"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
        ("gemma4", {"hidden_activation": "silu"}, "hidden_activation"),
        ("gemma4", {"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
        ("gemma4", {"rope_parameters": {"rope_type": "default"}}, "sliding_attention is missing"),
        ("gemma4", {"rope_parameters": {**ROPES, "full_attention": {"rope_type": "yarn"}}}, "rope_type is 'yarn'"),
        (
            "gemma4",
            {"rope_parameters": {**ROPES, "full_attention": {**ROPES["full_attention"], "factor": 0}}},
            "factor is 0",
        ),
        ("gemma4", {"final_logit_softcapping": 0}, "final_logit_softcapping"),
        ("gemma4", {"per_layer_config": {"1": {"head_dim": 20}}}, "per_layer_config"),
        ("gemma4", {"per_layer_config": {"1": {"head_dim": 20}, "3": {"head_dim": 24}}}, "per_layer_config"),
        ("gemma4", {"per_layer_config": {"0": {"head_dim": 20}, "2": {"head_dim": 20}}}, "per_layer_config"),
        ("gemma4", {"per_layer_config": [20]}, "per_layer_config"),
        ("gemma4", {"sliding_window": None}, "no sliding_window"),
        ("gemma4", {"global_head_dim": 21}, "heads of 21"),
        ("gemma4", {"num_global_key_value_heads": 3}, "4 heads cannot share 3"),
        ("gpt_oss", {"swiglu_limit": 6.0}, "swiglu_limit"),
        ("gpt_oss", {"swiglu_alpha": 1.5}, "swiglu_alpha"),
        ("llama4", {"layer_types": ["chunked_attention"]}, "layer_types"),
        ("llama4", {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ("llama4", {"layer_types": ["chunked_attention"] * 4, "attention_chunk_size": None}, "attention_chunk_size"),
        ("llama4", {"no_rope_layers": [1]}, "no_rope_layers"),
        ("llama4", {"moe_layers": []}, "no layer with experts"),
        ("qwen3_next", {"linear_num_value_heads": 3}, "3 value heads cannot share 2 key heads"),
        ("qwen3_next", {"layer_types": ["full_attention"]}, "layer_types"),
        ("lfm2_moe", {"conv_bias": True}, "conv_bias"),
        ("lfm2_moe", {"layer_types": ...}, "layer_types"),
        ("jetmoe", {"num_attention_heads": 6}, "6 heads are not 2"),
        ("ernie4_5_moe", {"use_bias": True}, "use_bias"),
        ("hunyuan_v1_moe", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "alpha"),
        ("hunyuan_v1_moe", {"moe_topk": [3]}, "moe_topk"),
        ("phimoe", {"num_experts_per_tok": 1}, "num_experts_per_tok"),
        ("phimoe", {"rope_scaling": {"type": "longrope", "short_factor": [1.0]}}, "short_factor"),
    ],
)
def test_refusals(name: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedModelError) as error:
        spec_of(name, **changes)
    assert said in str(error.value)
    assert str(error.value).isprintable()


def test_defaults_of_families_that_share_a_file() -> None:
    """As transformers' configuration classes have them."""
    flex = spec_of("flex_olmo", rms_norm_eps=..., num_experts=..., num_experts_per_tok=...)
    assert (flex.norm_eps, flex.mixture(0).experts, flex.mixture(0).router.top_k) == (1e-6, 7, 5)
    olmoe = spec_of("olmoe", rms_norm_eps=..., num_experts=..., num_experts_per_tok=...)
    assert (olmoe.norm_eps, olmoe.mixture(0).experts, olmoe.mixture(0).router.top_k) == (1e-5, 64, 8)
    assert spec_of("qwen3_next", num_experts=...).mixture(0).experts == 512
    assert spec_of("qwen3_5_moe_text", num_experts=...).mixture(0).experts == 256


def test_gemma_layers() -> None:
    """Every sixth layer sees everything, and the last; those have heads and a rotation of their own."""
    layers = attentions(spec_of("gemma4", num_hidden_layers=8, layer_types=...))
    assert [layer.window for layer in layers] == [7] * 5 + [None] + [7, None]
    assert [layer.values for layer in layers] == ["normed"] * 5 + ["keys", "normed", "keys"]
    assert {(layer.head_dim, layer.kv_heads) for layer in layers if layer.window} == {(12, 2)}
    assert {(layer.head_dim, layer.kv_heads) for layer in layers if not layer.window} == {(20, 1)}
    separate = attentions(spec_of("gemma4", attention_k_eq_v=False))
    assert {(layer.values, layer.kv_heads) for layer in separate} == {("normed", 2)}


def test_gemma_rotations_by_default() -> None:
    assert spec_of("gemma4", rope_parameters=...) == spec_of("gemma4", rope_parameters=ROPES) == spec_of("gemma4")


def test_gemma_heads_layer_by_layer() -> None:
    """How transformers writes them."""
    own = {"head_dim": 20, "num_key_value_heads": 1}
    saved = {"global_head_dim": ..., "num_global_key_value_heads": ..., "per_layer_config": {"1": own, "3": own}}
    assert spec_of("gemma4", **saved) == spec_of("gemma4")


def test_llama_chunks() -> None:
    def chunks(**changes: Any) -> list[int | None]:
        return [layer.chunk for layer in attentions(spec_of("llama4", **changes))]

    assert chunks() == [11, 11, 11, None]
    assert chunks(attention_chunk_size=...) == [8192] * 3 + [None]
    assert chunks(attention_chunk_size=None) == [None] * 4
    assert chunks(layer_types=["full_attention", *["chunked_attention"] * 3]) == [None, 11, 11, 11]


def test_llama_layers_with_experts() -> None:
    assert spec_of("llama4", moe_layers=[1]).moe_layers == (1,)
    assert spec_of("llama4", moe_layers=...).moe_layers == (0, 1, 2, 3)
    assert spec_of("llama4_maverick").moe_layers == (1, 3)


def test_ernie_layers_with_experts() -> None:
    assert spec_of("ernie4_5_moe").moe_layers == (1, 2)
    assert spec_of("ernie4_5_moe", moe_layer_end_index=-1).moe_layers == (1, 2, 3)
    assert spec_of("ernie4_5_moe", moe_layer_interval=2).moe_layers == (1,)
    shared = spec_of("ernie4_5_moe", moe_num_shared_experts=...).layers[1].mlp
    assert isinstance(shared, Mixture)
    assert shared.shared_width == 2 * 20
