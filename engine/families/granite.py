"""Granite 3 MoE (IBM): a softmax over the chosen experts, fused projections, and a multiplier at every turn."""

from __future__ import annotations

from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_MOE = "model.layers.{L}.block_sparse_moe."
_SHARED = "model.layers.{L}.shared_mlp."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "router": _MOE + "router.layer.weight",
    "stacked_gate_up": _MOE + "input_linear",
    "stacked_down": _MOE + "output_linear",
    "shared_gate_up": _SHARED + "input_linear.weight",
    "shared_down": _SHARED + "output_linear.weight",
}


def spec(config: Config) -> ModelSpec:
    """Read a granitemoe or granitemoeshared config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    bias = config.flag("attention_bias", False)
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim),
        qkv_bias=bias,
        out_bias=bias,
        scale=config.number("attention_multiplier", 1.0),
    )
    router = Router("chosen", config.integer("num_experts_per_tok", 2), renormalise=False)
    shared = config.integer("shared_intermediate_size", 0, low=0)
    mixture = Mixture(router, config.experts(8), config.integer("intermediate_size"), shared_width=shared)
    return ModelSpec(
        family=str(config.values["model_type"]),
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=(Layer(attention, mixture),) * config.layers(),
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 2048, high=1 << 31),
        names=_NAMES,
        embed_scale=config.number("embedding_multiplier", 1.0),
        residual_scale=config.number("residual_multiplier", 1.0),
        head_scale=1.0 / config.number("logits_scaling", 1.0),
    )
