"""Mixtral (Mistral AI): softmax router, always renormalised; w1 is gate, w3 up, w2 down."""

from __future__ import annotations

from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_MOE = "model.layers.{L}.block_sparse_moe."
NAMES: dict[Role, str] = {
    **STANDARD,
    "router": _MOE + "gate.weight",
    "expert_gate": _MOE + "experts.{E}.w1.weight",
    "expert_up": _MOE + "experts.{E}.w3.weight",
    "expert_down": _MOE + "experts.{E}.w2.weight",
    "stacked_gate_up": _MOE + "experts.gate_up_proj",
    "stacked_gate": _MOE + "experts.w1",
    "stacked_up": _MOE + "experts.w3",
    "stacked_down": _MOE + "experts.w2",
}


def spec(config: Config) -> ModelSpec:
    """Read a mixtral config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=1e6, pairs=config.flag("rope_interleave", False)),
        window=config.sliding_window(),
    )
    router = Router("softmax", config.integer("num_experts_per_tok", 2), renormalise=True)
    mixture = Mixture(router, config.experts(8), config.integer("intermediate_size"))
    return ModelSpec(
        family="mixtral",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=(Layer(attention, mixture),) * config.layers(),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=NAMES,
    )
