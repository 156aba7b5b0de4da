"""Phi-3.5-MoE (Microsoft): the sparsemixer router, layer norms with biases, longrope."""

from __future__ import annotations

from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .mixtral import NAMES

_NAMES: dict[Role, str] = {
    **NAMES,
    "input_norm_bias": "model.layers.{L}.input_layernorm.bias",
    "post_norm_bias": "model.layers.{L}.post_attention_layernorm.bias",
    "final_norm_bias": "model.norm.bias",
    "head_bias": "lm_head.bias",
}


def spec(config: Config) -> ModelSpec:
    """Read a phimoe config."""
    config.expect("num_experts_per_tok", None, 2)
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    bias, rope = config.flag("attention_bias", False), config.rope(head_dim, theta=1e6)
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", 8),
        head_dim=head_dim,
        rope=rope,
        qkv_bias=bias,
        out_bias=bias,
        window=config.sliding_window(),
    )
    router = Router("sparsemixer", 2, renormalise=False, jitter=config.number("router_jitter_noise", 0.01))
    mixture = Mixture(router, config.experts(16), config.integer("intermediate_size"))
    return ModelSpec(
        family="phimoe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=(Layer(attention, mixture),) * config.layers(),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=_NAMES,
        norm="layer",
        head_bias=config.flag("lm_head_bias", False),
    )
