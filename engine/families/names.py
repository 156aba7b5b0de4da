"""Tensor names as most families write them on the hub; a family overrides what it calls differently."""

from __future__ import annotations

from typing import Final

from ..model.spec import Role

_LAYER = "model.layers.{L}."
_ATTENTION = _LAYER + "self_attn."
_MLP = _LAYER + "mlp."

STANDARD: Final[dict[Role, str]] = {
    "embed": "model.embed_tokens.weight",
    "final_norm": "model.norm.weight",
    "head": "lm_head.weight",
    "input_norm": _LAYER + "input_layernorm.weight",
    "post_norm": _LAYER + "post_attention_layernorm.weight",
    "q": _ATTENTION + "q_proj.weight",
    "k": _ATTENTION + "k_proj.weight",
    "v": _ATTENTION + "v_proj.weight",
    "o": _ATTENTION + "o_proj.weight",
    "q_bias": _ATTENTION + "q_proj.bias",
    "k_bias": _ATTENTION + "k_proj.bias",
    "v_bias": _ATTENTION + "v_proj.bias",
    "o_bias": _ATTENTION + "o_proj.bias",
    "q_norm": _ATTENTION + "q_norm.weight",
    "k_norm": _ATTENTION + "k_norm.weight",
    "q_a": _ATTENTION + "q_a_proj.weight",
    "q_a_bias": _ATTENTION + "q_a_proj.bias",
    "q_a_norm": _ATTENTION + "q_a_layernorm.weight",
    "q_b": _ATTENTION + "q_b_proj.weight",
    "kv_a": _ATTENTION + "kv_a_proj_with_mqa.weight",
    "kv_a_bias": _ATTENTION + "kv_a_proj_with_mqa.bias",
    "kv_a_norm": _ATTENTION + "kv_a_layernorm.weight",
    "kv_b": _ATTENTION + "kv_b_proj.weight",
    "key_up": _ATTENTION + "k_b_proj.weight",
    "value_up": _ATTENTION + "v_b_proj.weight",
    "index_q": _ATTENTION + "indexer.wq_b.weight",
    "index_k": _ATTENTION + "indexer.wk.weight",
    "index_k_norm": _ATTENTION + "indexer.k_norm.weight",
    "index_k_norm_bias": _ATTENTION + "indexer.k_norm.bias",
    "index_weights": _ATTENTION + "indexer.weights_proj.weight",
    "gate": _MLP + "gate_proj.weight",
    "up": _MLP + "up_proj.weight",
    "down": _MLP + "down_proj.weight",
    "router": _MLP + "gate.weight",
    "router_bias": _MLP + "gate.e_score_correction_bias",
    "expert_gate": _MLP + "experts.{E}.gate_proj.weight",
    "expert_up": _MLP + "experts.{E}.up_proj.weight",
    "expert_down": _MLP + "experts.{E}.down_proj.weight",
    "stacked_gate_up": _MLP + "experts.gate_up_proj",
    "stacked_gate": _MLP + "experts.gate_proj",
    "stacked_up": _MLP + "experts.up_proj",
    "stacked_down": _MLP + "experts.down_proj",
    "shared_gate": _MLP + "shared_experts.gate_proj.weight",
    "shared_up": _MLP + "shared_experts.up_proj.weight",
    "shared_down": _MLP + "shared_experts.down_proj.weight",
}


def mtp_layers(first: int, count: int) -> tuple[str, ...]:
    """Patterns of the multi-token-prediction layers that follow the model's own."""
    return tuple(rf"model\.layers\.{first + i}\..*" for i in range(count))
