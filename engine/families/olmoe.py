"""OLMoE and FlexOlmo (allenai): softmax router, q and k normalised over the whole projection.

FlexOlmo's norms take what attention and experts return, instead of what they read.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_FLEX_NAMES: dict[Role, str] = {
    **STANDARD,
    "mixer_out_norm": "model.layers.{L}.post_attention_layernorm.weight",
    "mlp_out_norm": "model.layers.{L}.post_feedforward_layernorm.weight",
}


def spec(config: Config) -> ModelSpec:
    """Read an olmoe config."""
    return _spec(config, theta=10000.0, eps=1e-5, experts=64, chosen=8)


def flex_spec(config: Config) -> ModelSpec:
    """Read a flex_olmo config."""
    spec = _spec(config, theta=500000.0, eps=1e-6, experts=7, chosen=5)
    return replace(
        spec,
        family="flex_olmo",
        layers=tuple(replace(layer, norms="behind") for layer in spec.layers),
        names=_FLEX_NAMES,
    )


def _spec(config: Config, *, theta: float, eps: float, experts: int, chosen: int) -> ModelSpec:
    """The arguments are the family's defaults."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    bias = config.flag("attention_bias", False)
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=theta),
        qk_norm="projection",
        qkv_bias=bias,
        out_bias=bias,
        clip=config.number("clip_qkv") if config.has("clip_qkv") else None,
    )
    router = Router("softmax", config.integer("num_experts_per_tok", chosen), config.flag("norm_topk_prob", False))
    mixture = Mixture(router, config.experts(experts), config.integer("intermediate_size"))
    return ModelSpec(
        family="olmoe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=(Layer(attention, mixture),) * config.layers(),
        norm_eps=config.norm_eps(eps),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 4096, high=1 << 31),
        names=STANDARD,
    )
