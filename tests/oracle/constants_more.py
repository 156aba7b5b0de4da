"""Constants of the families of `cases_more` that `test_every_constant_shows` changes.

A change of a composite config is one of its `text_config`.
"""

from __future__ import annotations

from typing import Any

_YARN = {
    "beta_fast": 8.0, "beta_slow": 2.0, "factor": 6.0, "original_max_position_embeddings": 48, "rope_type": "yarn",
    "attention_factor": 1.3,
}  # fmt: skip
_SHORT = [1.0, 1.35, 1.7, 2.05, 2.4, 2.75]
_LONGROPE = {
    "long_factor": _SHORT, "long_mscale": 1.3, "short_mscale": 1.2, "short_factor": _SHORT, "type": "longrope",
    "original_max_position_embeddings": 4096,
}  # fmt: skip
_LLAMA3 = {
    "factor": 5.0, "high_freq_factor": 8.0, "low_freq_factor": 2.0, "original_max_position_embeddings": 64,
    "rope_type": "llama3",
}  # fmt: skip
_SLIDING = {"rope_theta": 10000.0, "rope_type": "default"}
_FULL = {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"}
_FULL_LONG = {"factor": 1.6, "partial_rotary_factor": 0.6, "rope_theta": 700.0, "rope_type": "proportional"}

CONSTANTS: list[tuple[str, dict[str, Any]]] = [
    ("flex_olmo", {"rope_theta": 10000}),
    ("flex_olmo-long", {"rms_norm_eps": 1e-6}),
    ("flex_olmo-long", {"num_experts_per_tok": 3}),
    ("gpt_oss", {"sliding_window": 8}),
    ("gpt_oss", {"layer_types": ["full_attention", "full_attention", "sliding_attention"]}),
    ("gpt_oss", {"rope_scaling": None}),
    ("gpt_oss", {"num_experts_per_tok": 2}),
    ("gpt_oss-long", {"sliding_window": 51}),
    ("gpt_oss-long", {"rope_scaling": {**_YARN, "attention_factor": 1.2}}),
    ("gpt_oss-long", {"rope_scaling": {**_YARN, "truncate": False}}),
    ("gpt_oss-long", {"rms_norm_eps": 1e-5}),
    ("granitemoe", {"attention_multiplier": 0.3}),
    ("granitemoe", {"embedding_multiplier": 2.5}),
    ("granitemoe", {"logits_scaling": 0.6}),
    ("granitemoe", {"residual_multiplier": 0.5}),
    ("granitemoe-long", {"rope_theta": 10000}),
    ("granitemoe-long", {"rms_norm_eps": 1e-6}),
    ("granitemoeshared", {"num_experts_per_tok": 2}),
    ("granitemoeshared-long", {"residual_multiplier": 1.0}),
    ("phimoe", {"rope_scaling": {**_LONGROPE, "short_factor": [1.0] * 6}}),
    ("phimoe", {"rope_scaling": {**_LONGROPE, "short_mscale": 1.1}}),
    ("phimoe", {"router_jitter_noise": 0.01}),
    ("phimoe-long", {"router_jitter_noise": 0.25}),
    ("phimoe-long", {"sliding_window": 61}),
    ("phimoe-long", {"rms_norm_eps": 1e-5}),
    ("ernie4_5_moe", {"moe_k": 2}),
    ("ernie4_5_moe", {"rope_theta": 10000}),
    ("ernie4_5_moe-long", {"rms_norm_eps": 1e-5}),
    ("hunyuan_v1_moe", {"moe_topk": [3, 2, 3]}),
    ("hunyuan_v1_moe-long", {"moe_topk": [4, 2]}),
    ("hunyuan_v1_moe-long", {"rope_scaling": {"alpha": 40.0, "factor": 1.0, "type": "dynamic"}}),
    ("hunyuan_v1_moe-long", {"rms_norm_eps": 1e-5}),
    ("jetmoe", {"rms_norm_eps": 1e-5}),
    ("jetmoe-long", {"rope_theta": 700.0}),
    ("lfm2_moe", {"num_experts_per_tok": 4}),
    ("lfm2_moe", {"norm_topk_prob": False}),
    ("lfm2_moe-long", {"routed_scaling_factor": 1.0}),
    ("lfm2_moe-long", {"norm_topk_prob": True}),
    ("lfm2_moe-long", {"norm_eps": 1e-5}),
    ("lfm2_moe-long", {"rope_theta": 800.0}),
    ("minimax_m2", {"rotary_dim": 20}),
    ("minimax_m2", {"num_experts_per_tok": 4}),
    ("minimax_m2-long", {"rotary_dim": 8}),
    ("minimax_m2-long", {"rope_theta": 1000}),
    ("minimax_m2-long", {"rms_norm_eps": 1e-6}),
    ("qwen3_next", {"norm_topk_prob": False}),
    ("qwen3_next", {"partial_rotary_factor": 0.5}),
    ("qwen3_next-long", {"partial_rotary_factor": 0.25}),
    ("qwen3_next-long", {"rope_theta": 1000.0}),
    ("qwen3_next-long", {"norm_topk_prob": True}),
    ("qwen3_next-long", {"rms_norm_eps": 1e-6}),
    ("qwen3_5_moe", {"num_experts_per_tok": 2}),
    (
        "qwen3_5_moe-long",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.75}},
    ),
    ("qwen3_5_moe-long", {"rms_norm_eps": 1e-6}),
    ("llama4", {"attention_chunk_size": 12}),
    ("llama4", {"attn_scale": 0.1}),
    ("llama4", {"floor_scale": 5}),
    ("llama4", {"attn_temperature_tuning": False}),
    ("llama4", {"use_qk_norm": False}),
    ("llama4", {"rope_scaling": None}),
    ("llama4", {"no_rope_layer_interval": 3}),
    ("llama4-long", {"attention_chunk_size": 51}),
    ("llama4-long", {"attention_chunk_size": None}),
    ("llama4-long", {"no_rope_layers": [1, 1, 0]}),
    ("llama4-long", {"layer_types": ["chunked_attention", "chunked_attention", "full_attention"]}),
    ("llama4-long", {"num_experts_per_tok": 1}),
    ("llama4-long", {"rope_scaling": {**_LLAMA3, "factor": 4.0}}),
    ("llama4-long", {"rope_scaling": {**_LLAMA3, "low_freq_factor": 1.0}}),
    ("llama4-long", {"rms_norm_eps": 1e-5}),
    ("llama4_text-long", {"attn_temperature_tuning": True, "floor_scale": 4}),
    ("llama4_text-long", {"attention_chunk_size": 64}),
    ("llama4_maverick-long", {"floor_scale": 31}),
    ("llama4_maverick-long", {"use_qk_norm": True}),
    ("gemma4", {"final_logit_softcapping": None}),
    ("gemma4", {"final_logit_softcapping": 9.0}),
    ("gemma4", {"sliding_window": 8}),
    ("gemma4", {"top_k_experts": 2}),
    ("gemma4", {"rope_parameters": {"full_attention": {**_FULL, "rope_theta": 1e4}, "sliding_attention": _SLIDING}}),
    ("gemma4", {"rope_parameters": {"full_attention": _FULL, "sliding_attention": {**_SLIDING, "rope_theta": 500.0}}}),
    (
        "gemma4",
        {"rope_parameters": {"full_attention": {**_FULL, "partial_rotary_factor": 0.5}, "sliding_attention": _SLIDING}},
    ),
    (
        "gemma4-long",
        {
            "rope_parameters": {
                "full_attention": {**_FULL_LONG, "factor": 1.5}, "sliding_attention": {**_SLIDING, "rope_theta": 300.0},
            }
        },
    ),
    ("gemma4-long", {"sliding_window": 51}),
    ("gemma4-long", {"rms_norm_eps": 1e-6}),
]  # fmt: skip
