"""LFM2 MoE (Liquid AI): short gated convolutions between attention layers, a sigmoid router with a bias."""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Role, Router, ShortConvolution
from .config import Config
from .names import STANDARD

_LAYER = "model.layers.{L}."
_MLP = _LAYER + "feed_forward."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "final_norm": "model.embedding_norm.weight",
    "input_norm": _LAYER + "operator_norm.weight",
    "post_norm": _LAYER + "ffn_norm.weight",
    "o": _LAYER + "self_attn.out_proj.weight",
    "q_norm": _LAYER + "self_attn.q_layernorm.weight",
    "k_norm": _LAYER + "self_attn.k_layernorm.weight",
    "in_conv": _LAYER + "conv.in_proj.weight",
    "conv": _LAYER + "conv.conv.weight",
    "out": _LAYER + "conv.out_proj.weight",
    "gate": _MLP + "w1.weight",
    "up": _MLP + "w3.weight",
    "down": _MLP + "w2.weight",
    "router": _MLP + "gate.weight",
    "router_bias": _MLP + "expert_bias",
    "expert_gate": _MLP + "experts.{E}.w1.weight",
    "expert_up": _MLP + "experts.{E}.w3.weight",
    "expert_down": _MLP + "experts.{E}.w2.weight",
    "stacked_gate_up": _MLP + "experts.gate_up_proj",
    "stacked_down": _MLP + "experts.down_proj",
}
_RENORM_EPS = 1e-6


def spec(config: Config) -> ModelSpec:
    """Read an lfm2_moe config."""
    if config.flag("conv_bias", False):
        raise UnsupportedModelError("config.json: conv_bias true is not supported")
    layers, types = config.layers(), config.values.get("layer_types")
    known = ("conv", "full_attention")
    if not isinstance(types, list) or len(types) != layers or any(kind not in known for kind in types):
        raise UnsupportedModelError(
            f"config.json: layer_types must name {' or '.join(known)} for each of {layers} layers"
        )
    head_dim = config.head_dim()
    attention = Attention(
        heads=config.integer("num_attention_heads"),
        kv_heads=config.integer("num_key_value_heads", 8),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=1e6),
        qk_norm="head",
    )
    convolution = ShortConvolution(config.integer("conv_L_cache", 3, low=2))
    router = Router(
        "sigmoid",
        config.integer("num_experts_per_tok", 4),
        config.flag("norm_topk_prob", True),
        renorm_eps=_RENORM_EPS,
        scaling=config.number("routed_scaling_factor", 1.0),
        correction_bias=config.flag("use_expert_bias", True),
    )
    mixture = Mixture(router, config.experts(32), config.integer("moe_intermediate_size"))
    dense, dense_layers = DenseMlp(config.integer("intermediate_size")), config.integer("num_dense_layers", 2, low=0)
    tied = (
        config.flag("tie_embedding", True) if config.has("tie_embedding") else config.flag("tie_word_embeddings", True)
    )
    return ModelSpec(
        family="lfm2_moe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(
            Layer(convolution if kind == "conv" else attention, dense if index < dense_layers else mixture)
            for index, kind in enumerate(types)
        ),
        norm_eps=config.number("norm_eps", 1e-5, high=1.0),
        tied=tied,
        max_context=config.integer("max_position_embeddings", 128000, high=1 << 31),
        names=_NAMES,
    )
