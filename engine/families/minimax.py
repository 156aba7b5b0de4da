"""MiniMax-M2: sigmoid router with a correction bias, q and k normalised over the whole projection."""

from __future__ import annotations

from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .mixtral import NAMES

_NAMES: dict[Role, str] = {
    **NAMES,
    "router_bias": "model.layers.{L}.block_sparse_moe.e_score_correction_bias",
}


def spec(config: Config) -> ModelSpec:
    """Read a minimax_m2 config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    rotated = config.integer("rotary_dim", head_dim, high=head_dim)
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", 8),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=5e6, partial=rotated / head_dim),
        qk_norm="projection",
    )
    router = Router("sigmoid", config.integer("num_experts_per_tok", 8), renormalise=True, correction_bias=True)
    mixture = Mixture(router, config.experts(256), config.integer("intermediate_size"))
    layers = config.layers()
    return ModelSpec(
        family="minimax_m2",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=(Layer(attention, mixture),) * layers,
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 196608, high=1 << 31),
        names=_NAMES,
        ignore=(r"model\.mtp_modules\..*",),
    )
