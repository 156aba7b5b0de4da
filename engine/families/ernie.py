"""ERNIE 4.5 MoE (Baidu): softmax scores with a correction bias, rotation of pairs, dense layers at both ends."""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_NAMES: dict[Role, str] = {
    **STANDARD,
    "router_bias": "model.layers.{L}.mlp.moe_statics.e_score_correction_bias",
}


def spec(config: Config) -> ModelSpec:
    """Read an ernie4_5_moe config."""
    if config.flag("use_bias", False):
        raise UnsupportedModelError("config.json: use_bias true is not supported for ernie4_5_moe")
    heads, head_dim, layers = config.integer("num_attention_heads"), config.head_dim(), config.layers()
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=500000.0, pairs=True),
    )
    router = Router("softmax", config.integer("moe_k", 6), renormalise=True, correction_bias=True)
    width = config.integer("moe_intermediate_size")
    shared = config.integer("moe_num_shared_experts", 2, low=0)
    mixture = Mixture(router, config.experts(64), width, shared_width=shared * width)
    first, step = config.integer("moe_layer_start_index", 1, low=0), config.integer("moe_layer_interval", 1)
    end = config.integer("moe_layer_end_index", -1, low=-1)
    last = layers - 1 if end == -1 else end
    dense = DenseMlp(config.integer("intermediate_size"))
    return ModelSpec(
        family="ernie4_5_moe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(
            Layer(attention, mixture if (i + 1) % step == 0 and first <= i <= last else dense) for i in range(layers)
        ),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", True),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=_NAMES,
        ignore=(r"model\.mtp_\w+\..*",),
    )
