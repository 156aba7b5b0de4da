"""What the values of a config are called in GGUF metadata, so that a refusal names what a reader finds in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_KEYS: Final = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_nextn_predict_layers": "nextn_predict_layers",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "v_head_dim": "attention.value_length",
    "qk_nope_head_dim": "attention.key_length",
    "qk_rope_head_dim": "rope.dimension_count",
    "rotary_dim": "rope.dimension_count",
    "partial_rotary_factor": "rope.dimension_count",
    "kv_lora_rank": "attention.kv_lora_rank",
    "q_lora_rank": "attention.q_lora_rank",
    "sliding_window": "attention.sliding_window",
    "clip_qkv": "attention.clamp_kqv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "rope_scaling": "rope.scaling",
    "intermediate_size": "feed_forward_length",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_k": "expert_used_count",
    "n_shared_experts": "expert_shared_count",
    "moe_num_shared_experts": "expert_shared_count",
    "first_k_dense_replace": "leading_dense_block_count",
    "moe_layer_start_index": "leading_dense_block_count",
    "moe_layer_interval": "interleave_moe_layer_step",
    "norm_topk_prob": "expert_weights_norm",
    "routed_scaling_factor": "expert_weights_scale",
    "n_group": "expert_group_count",
    "topk_group": "expert_group_used_count",
}
"""Behind the architecture's name, by the config's key."""

_WIDE: Final = frozenset({"gpt-oss", "minimax-m2"})
"""Architectures whose config calls an expert's width `intermediate_size`."""


def in_gguf_words(message: str, metadata: Mapping[str, Any], origin: str) -> str:
    """A refusal of a config.json as one of the file `origin`, whose config was made of its metadata."""
    arch = str(metadata.get("general.architecture"))

    def said(found: re.Match[str]) -> str:
        key = _KEYS[found[0]]
        if found[0] == "intermediate_size" and arch in _WIDE:
            key = _KEYS["moe_intermediate_size"]
        return f"{arch}.{key}"

    keys = re.sub(rf"\b({'|'.join(_KEYS)})\b", said, message.removeprefix("config.json: "))
    return f"{origin}: {keys}" if message.startswith("config.json: ") else keys
