"""gpt-oss (OpenAI): attention sinks, windows in every other layer, biases everywhere, a clamped activation."""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_LAYER = "model.layers.{L}."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "sinks": _LAYER + "self_attn.sinks",
    "router": _LAYER + "mlp.router.weight",
    "router_logit_bias": _LAYER + "mlp.router.bias",
    "expert_gate_up_bias": _LAYER + "mlp.experts.gate_up_proj_bias",
    "expert_gate_bias": _LAYER + "mlp.experts.gate_proj_bias",
    "expert_up_bias": _LAYER + "mlp.experts.up_proj_bias",
    "expert_down_bias": _LAYER + "mlp.experts.down_proj_bias",
}


_YARN = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
"""What a config without a word about it means."""


def spec(config: Config) -> ModelSpec:
    """Read a gpt_oss config."""
    if config.number("swiglu_limit", 7.0) != 7.0 or config.number("swiglu_alpha", 1.702) != 1.702:
        raise UnsupportedModelError("config.json: only a swiglu_limit of 7 and a swiglu_alpha of 1.702 are supported")
    if not (config.values.get("rope_scaling") or config.values.get("rope_parameters")):
        config = Config({**config.values, "rope_scaling": _YARN})
    heads = config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", 64)
    bias = config.flag("attention_bias", True)
    layers = config.layers()
    windows = config.windows(config.sliding_window(128), [index % 2 == 0 for index in range(layers)])
    mixture = Mixture(
        Router("chosen", config.integer("num_experts_per_tok", 4), renormalise=False, logit_bias=True),
        config.experts(128),
        config.integer("intermediate_size"),
        activation="clamped",
        expert_bias=True,
        layout="alternating",
    )
    return ModelSpec(
        family="gpt_oss",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(
            Layer(
                Attention(
                    heads=heads,
                    kv_heads=config.integer("num_key_value_heads", 8),
                    head_dim=head_dim,
                    rope=config.rope(head_dim, theta=150000.0),
                    qkv_bias=bias,
                    out_bias=bias,
                    window=window,
                    sinks=True,
                ),
                mixture,
            )
            for window in windows
        ),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=_NAMES,
    )
