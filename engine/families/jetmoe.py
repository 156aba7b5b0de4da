"""JetMoE (MIT, MyShell): experts in attention too; a softmax over the chosen, a bias after combining."""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import Layer, MixedAttention, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_ATTENTION = "model.layers.{L}.self_attention."
_MLP = "model.layers.{L}.mlp."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "kv": _ATTENTION + "kv_proj.weight",
    "q": _ATTENTION + "experts.input_linear.weight",
    "o": _ATTENTION + "experts.output_linear.weight",
    "attention_router": _ATTENTION + "experts.router.layer.weight",
    "attention_bias": _ATTENTION + "experts.bias",
    "router": _MLP + "router.layer.weight",
    "stacked_gate_up": _MLP + "input_linear",
    "stacked_down": _MLP + "output_linear",
    "mixture_bias": _MLP + "bias",
}
_NORM_EPS = 1e-6
"""Of all norms but the last, whatever the config says."""


def spec(config: Config) -> ModelSpec:
    """Read a jetmoe config."""
    config.expect("activation_function", None, "silu")
    heads, head_dim = config.integer("num_attention_heads"), config.integer("kv_channels", 128)
    router = Router("chosen", config.integer("num_experts_per_tok", 2), renormalise=False)
    kv_heads = config.integer("num_key_value_heads", 16)
    if heads != kv_heads * router.top_k:
        raise UnsupportedModelError(
            f"config.json: {heads} heads are not {kv_heads} key/value heads times {router.top_k} experts a token"
        )
    experts = config.experts(8)
    attention = MixedAttention(router, experts, kv_heads, head_dim, config.rope(head_dim))
    mixture = Mixture(router, experts, config.integer("intermediate_size"), output_bias=True)
    return ModelSpec(
        family="jetmoe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=(Layer(attention, mixture),) * config.layers(),
        norm_eps=_NORM_EPS,
        tied=config.flag("tie_word_embeddings", True),
        max_context=config.integer("max_position_embeddings", 4096, high=1 << 31),
        names=_NAMES,
        final_norm_eps=config.norm_eps(1e-6),
    )
