"""Hunyuan-A13B (Tencent): q and k normalised after the rotation, one shared expert, the router kept in float32."""

from __future__ import annotations

from dataclasses import replace

from ..errors import UnsupportedModelError
from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Rope, Router
from .config import Config
from .names import STANDARD

_LAYER = "model.layers.{L}."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "q_norm": _LAYER + "self_attn.query_layernorm.weight",
    "k_norm": _LAYER + "self_attn.key_layernorm.weight",
    "router": _LAYER + "mlp.gate.wg.weight",
    "shared_gate": _LAYER + "mlp.shared_mlp.gate_proj.weight",
    "shared_up": _LAYER + "mlp.shared_mlp.up_proj.weight",
    "shared_down": _LAYER + "mlp.shared_mlp.down_proj.weight",
}


def _rope(config: Config, head_dim: int) -> Rope:
    """ "dynamic" with an alpha is a larger base, at every length."""
    rope = config.rope(head_dim)
    if rope.scaling["rope_type"] != "dynamic":
        return rope
    alpha = rope.scaling.get("alpha")
    if not isinstance(alpha, (int, float)) or not 0 < alpha < 1e9 or head_dim <= 2:
        raise UnsupportedModelError(f"config.json: dynamic rope_scaling needs a positive alpha, not {alpha!r}")
    theta = rope.theta * alpha ** (head_dim / (head_dim - 2))
    return replace(rope, theta=theta, scaling={**rope.scaling, "rope_type": "default"})


def spec(config: Config) -> ModelSpec:
    """Read a hunyuan_v1_moe config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    bias = config.flag("attention_bias", False)
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=_rope(config, head_dim),
        qk_norm="rotated",
        qkv_bias=bias,
        out_bias=bias,
    )
    width = config.integer("intermediate_size")
    return ModelSpec(
        family="hunyuan_v1_moe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(
            Layer(attention, Mixture(Router("softmax", top_k, renormalise=True), config.experts(8), width, width))
            for top_k in config.per_layer("moe_topk", 1)
        ),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 2048, high=1 << 31),
        names=_NAMES,
    )
