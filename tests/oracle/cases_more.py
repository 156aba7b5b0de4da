"""The cases of the families whose layers differ in more than numbers; `-long` ones have other constants.

Windows and chunks are shorter than every long prompt, the scaled ropes' original lengths too.
"""

from __future__ import annotations

from typing import Any

from .checkpoints import Case

_COMMON: dict[str, Any] = {
    "hidden_act": "silu", "attention_dropout": 0.0, "attention_bias": False, "use_cache": True,
    "initializer_range": 0.02, "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 3, "vocab_size": 127,
}  # fmt: skip


def _flex(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["FlexOlmoForCausalLM"], "model_type": "flex_olmo", "intermediate_size": 20,
        "max_position_embeddings": 4096, "norm_topk_prob": False, "num_key_value_heads": 4, "num_experts": 7,
        "pad_token_id": 0,
        "num_experts_per_tok": 3, "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 500000,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", **changes,
    }  # fmt: skip


def _oss(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True,
        "experts_per_token": 3, "head_dim": 20, "initial_context_length": 64, "intermediate_size": 24,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "max_position_embeddings": 2048,
        "num_experts_per_tok": 3, "num_local_experts": 7, "rms_norm_eps": 1e-5,
        "rope_scaling": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 64,
            "rope_type": "yarn", "truncate": False,
        }, "rope_theta": 150000, "sliding_window": 7, "swiglu_limit": 7.0, "tie_word_embeddings": False, **changes,
    }  # fmt: skip


def _granite(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["GraniteMoeForCausalLM"], "model_type": "granitemoe",
        "attention_multiplier": 0.4, "embedding_multiplier": 3.0, "intermediate_size": 20, "logits_scaling": 0.5,
        "max_position_embeddings": 4096, "num_experts_per_tok": 3, "num_local_experts": 9,
        "residual_multiplier": 0.6, "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 10000,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", **changes,
    }  # fmt: skip


def _granite_shared(**changes: Any) -> dict[str, Any]:
    return _granite(
        **{
            "architectures": ["GraniteMoeSharedForCausalLM"], "model_type": "granitemoeshared",
            "shared_intermediate_size": 26, "attention_multiplier": 0.25, "logits_scaling": 0.7, **changes,
        }
    )  # fmt: skip


def _phi(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["PhiMoEForCausalLM"], "model_type": "phimoe", "attention_bias": True,
        "input_jitter_noise": 0.01, "intermediate_size": 20, "lm_head_bias": True, "max_position_embeddings": 131072,
        "num_experts_per_tok": 2, "num_local_experts": 7, "original_max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "rope_scaling": {
            "long_factor": [1.5, 5.5, 9.5, 13.5, 17.5, 21.5], "long_mscale": 1.3, "short_mscale": 1.2,
            "short_factor": [1.0, 1.35, 1.7, 2.05, 2.4, 2.75], "original_max_position_embeddings": 4096,
            "type": "longrope",
        }, "rope_theta": 10000.0, "router_jitter_noise": 0.12, "sliding_window": 131072,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", **changes,
    }  # fmt: skip


def _ernie(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe",
        "intermediate_size": 44, "max_position_embeddings": 131072, "num_hidden_layers": 4,
        "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-5, "rope_theta": 500000, "use_rmsnorm": True,
        "tie_word_embeddings": True, "use_bias": False, "moe_num_experts": 11, "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1, "moe_layer_end_index": 2, "moe_layer_interval": 1, "moe_intermediate_size": 20,
        "moe_gate": "topk", "moe_k": 3, "moe_use_aux_free": True, "torch_dtype": "bfloat16", **changes,
    }  # fmt: skip


def _hunyuan(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["HunYuanMoEV1ForCausalLM"], "model_type": "hunyuan_v1_moe",
        "attention_head_dim": 20, "head_dim": 20, "intermediate_size": 24, "max_position_embeddings": 32768,
        "mlp_bias": False, "moe_intermediate_size": [24, 24, 24], "moe_topk": [3, 3, 3], "norm_topk_prob": True,
        "num_experts": 8, "num_shared_expert": [1, 1, 1], "rms_norm_eps": 1e-5,
        "rope_scaling": {
            "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            "type": "dynamic",
        }, "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_qk_norm": True,
        **changes,
    }  # fmt: skip


def _jet(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["JetMoEForCausalLM"], "model_type": "jetmoe", "activation_function": "silu",
        "bias": True, "glu": True, "intermediate_size": 20, "kv_channels": 12, "layer_norm_epsilon": 1e-5,
        "max_position_embeddings": 4096, "num_experts_per_tok": 2, "num_local_experts": 7, "rms_norm_eps": 0.3,
        "rope_theta": 10000.0, "rotary_percent": 1.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        **changes,
    }  # fmt: skip


def _lfm(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "conv_L_cache": 3,
        "conv_bias": False, "dtype": "bfloat16", "intermediate_size": 44,
        "layer_types": ["conv", "full_attention", "conv", "full_attention"], "max_position_embeddings": 128000,
        "moe_intermediate_size": 20, "norm_eps": 1e-5, "norm_topk_prob": True, "num_dense_layers": 1,
        "num_experts": 8, "num_experts_per_tok": 3, "num_hidden_layers": 4, "rope_theta": 1000000.0,
        "routed_scaling_factor": 1.0, "tie_embedding": True, "use_expert_bias": True, **changes,
    }  # fmt: skip


def _minimax(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "head_dim": 20,
        "intermediate_size": 20, "max_position_embeddings": 196608, "mtp_transformer_layers": 1,
        "num_experts_per_tok": 3, "num_local_experts": 9, "num_mtp_modules": 3, "qk_norm_type": "per_layer",
        "rms_norm_eps": 1e-6, "rope_theta": 5000000, "rotary_dim": 10, "scoring_func": "sigmoid",
        "tie_word_embeddings": False, "use_mtp": True, "use_qk_norm": True, "use_routing_bias": True, **changes,
    }  # fmt: skip


_LINEAR_HEADS = {
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 10, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_value_head_dim": 12,
}  # fmt: skip


def _next(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, **_LINEAR_HEADS, "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "decoder_sparse_step": 1, "full_attention_interval": 2, "head_dim": 16, "intermediate_size": 44,
        "max_position_embeddings": 262144, "mlp_only_layers": [], "moe_intermediate_size": 20, "norm_topk_prob": True,
        "num_experts": 9, "num_experts_per_tok": 3, "num_hidden_layers": 4, "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 10000000, "shared_expert_intermediate_size": 26,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_sliding_window": False, **changes,
    }  # fmt: skip


def _qwen35_text(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, **_LINEAR_HEADS, "attn_output_gate": True, "dtype": "bfloat16", "full_attention_interval": 2,
        "head_dim": 16, "layer_types": ["linear_attention", "full_attention"] * 2, "max_position_embeddings": 262144,
        "mlp_only_layers": [], "model_type": "qwen3_5_moe_text", "moe_intermediate_size": 20,
        "mtp_num_hidden_layers": 1, "num_experts": 10, "num_experts_per_tok": 3, "num_hidden_layers": 4,
        "rms_norm_eps": 1e-6, "shared_expert_intermediate_size": 26, "mamba_ssm_dtype": "float32",
        "rope_parameters": {
            "mrope_interleaved": True, "mrope_section": [1, 1, 0], "rope_type": "default", "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
        }, **changes,
    }  # fmt: skip


def _qwen35(tied: bool, **changes: Any) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"], "image_token_id": 3, "model_type": "qwen3_5_moe",
        "text_config": _qwen35_text(**changes), "tie_word_embeddings": tied,
        "vision_config": {
            "deepstack_visual_indexes": [], "depth": 1, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32,
            "in_channels": 3, "intermediate_size": 64, "model_type": "qwen3_5_moe", "num_heads": 2,
            "num_position_embeddings": 16, "out_hidden_size": 48, "patch_size": 4, "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    }  # fmt: skip


_LLAMA3 = {
    "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
    "rope_type": "llama3",
}  # fmt: skip


def _llama_text(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "attention_chunk_size": 11, "attn_scale": 0.4, "attn_temperature_tuning": True, "floor_scale": 4,
        "head_dim": 20, "interleave_moe_layer_step": 1, "intermediate_size": 24, "intermediate_size_mlp": 44,
        "max_position_embeddings": 10485760, "model_type": "llama4_text", "no_rope_layers": [],
        "num_experts_per_tok": 1, "num_hidden_layers": 4, "num_local_experts": 5, "rms_norm_eps": 1e-5,
        "rope_scaling": _LLAMA3, "rope_theta": 500000.0, "torch_dtype": "bfloat16", "use_qk_norm": True, **changes,
    }  # fmt: skip


def _llama(**changes: Any) -> dict[str, Any]:
    return {
        "architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
        "text_config": _llama_text(**changes), "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vision_config": {
            "hidden_size": 32, "image_size": 16, "intermediate_size": 64, "model_type": "llama4_vision_model",
            "num_attention_heads": 2, "num_hidden_layers": 1, "patch_size": 4, "projector_input_dim": 32,
            "projector_output_dim": 32, "vision_output_dim": 32,
        },
    }  # fmt: skip


def _maverick(**changes: Any) -> dict[str, Any]:
    return _llama(
        **{
            "use_qk_norm": False, "interleave_moe_layer_step": 2, "rope_scaling": None, "num_local_experts": 7,
            **changes,
        }
    )  # fmt: skip


def _gemma_text(**changes: Any) -> dict[str, Any]:
    return {
        "attention_bias": False, "attention_dropout": 0.0, "attention_k_eq_v": True, "dtype": "bfloat16",
        "enable_moe_block": True, "final_logit_softcapping": 8.0, "global_head_dim": 20, "head_dim": 12,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 48, "hidden_size_per_layer_input": 0,
        "intermediate_size": 44, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "max_position_embeddings": 262144, "model_type": "gemma4_text", "moe_intermediate_size": 20,
        "num_attention_heads": 4, "num_experts": 9, "num_global_key_value_heads": 1, "num_hidden_layers": 4,
        "num_key_value_heads": 2, "num_kv_shared_layers": 0, "rms_norm_eps": 1e-6, "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        }, "sliding_window": 7, "tie_word_embeddings": True, "top_k_experts": 3,
        "use_bidirectional_attention": "vision", "use_cache": True, "use_double_wide_mlp": False, "vocab_size": 127,
        "vocab_size_per_layer_input": 127, **changes,
    }  # fmt: skip


def _gemma(**changes: Any) -> dict[str, Any]:
    return {
        "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "image_token_id": 258880,
        "video_token_id": 258884, "audio_token_id": 258881, "audio_config": None,
        "text_config": _gemma_text(**changes), "tie_word_embeddings": True,
        "vision_config": {
            "head_dim": 16, "hidden_size": 32, "intermediate_size": 64, "model_type": "gemma4_vision",
            "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 2, "patch_size": 4,
            "position_embedding_size": 16,
        },
    }  # fmt: skip


CASES = (
    Case("flex_olmo", _flex(), 201, 24),
    Case(
        "flex_olmo-long",
        _flex(
            hidden_size=60, num_attention_heads=6, num_key_value_heads=2, intermediate_size=33, num_experts=9,
            num_experts_per_tok=4, num_hidden_layers=2, rope_theta=700.0, rms_norm_eps=0.02, norm_topk_prob=True,
            attention_bias=True, vocab_size=113,
        ), 202, 204, dtype="F32", shards=3,
    ),
    Case("gpt_oss", _oss(), 211, 24, shards=3),
    Case(
        "gpt_oss-long",
        _oss(
            attention_bias=False, head_dim=18, num_attention_heads=6, num_key_value_heads=3, intermediate_size=31,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"], sliding_window=50,
            rope_scaling={
                "beta_fast": 8.0, "beta_slow": 2.0, "factor": 6.0, "original_max_position_embeddings": 48,
                "rope_type": "yarn", "attention_factor": 1.3,
            }, rope_theta=3000.0, num_experts_per_tok=2, num_local_experts=6, rms_norm_eps=0.02,
            tie_word_embeddings=True, vocab_size=109,
        ), 212, 205, dtype="F16",
    ),
    Case("granitemoe", _granite(), 221, 24),
    Case(
        "granitemoe-long",
        _granite(
            attention_bias=True, attention_multiplier=0.15, embedding_multiplier=1.4, logits_scaling=6.0,
            residual_multiplier=0.8, num_attention_heads=3, num_key_value_heads=1, num_experts_per_tok=4,
            num_local_experts=11, rope_theta=800, rms_norm_eps=0.02, tie_word_embeddings=False, vocab_size=111,
        ), 222, 203, dtype="F16", shards=2,
    ),
    Case("granitemoeshared", _granite_shared(), 223, 24, shards=2),
    Case(
        "granitemoeshared-long",
        _granite_shared(
            residual_multiplier=0.9, shared_intermediate_size=33, embedding_multiplier=0.8, num_hidden_layers=2,
            rope_theta=500, tie_word_embeddings=False, num_experts_per_tok=2, vocab_size=114,
        ), 224, 206, dtype="F32",
    ),
    Case("phimoe", _phi(), 231, 24),
    Case(
        "phimoe-long",
        _phi(
            attention_bias=False, lm_head_bias=False, num_local_experts=10, rms_norm_eps=0.02, rope_scaling=None,
            rope_theta=900.0, router_jitter_noise=0.3, sliding_window=60, num_hidden_layers=2, num_attention_heads=3,
            num_key_value_heads=3, vocab_size=107,
        ), 232, 207, dtype="F32", shards=2,
    ),
    Case("ernie4_5_moe", _ernie(), 241, 24),
    Case(
        "ernie4_5_moe-long",
        _ernie(
            head_dim=14, moe_layer_interval=2, moe_layer_start_index=0, moe_layer_end_index=-1,
            moe_num_shared_experts=0, moe_num_experts=13, moe_k=5, rms_norm_eps=0.02, rope_theta=900.0,
            tie_word_embeddings=False, vocab_size=110,
        ), 242, 202, dtype="F16", shards=2,
    ),
    Case("hunyuan_v1_moe", _hunyuan(), 251, 24),
    Case(
        "hunyuan_v1_moe-long",
        _hunyuan(
            attention_bias=True, head_dim=14, moe_topk=[2, 4], num_hidden_layers=2, num_experts=11, rms_norm_eps=0.02,
            rope_scaling={"alpha": 30.0, "factor": 1.0, "type": "dynamic"}, rope_theta=500.0, num_attention_heads=6,
            num_key_value_heads=3, tie_word_embeddings=False, vocab_size=112,
        ), 252, 203, dtype="F16",
    ),
    Case("jetmoe", _jet(), 261, 24),
    Case(
        "jetmoe-long",
        _jet(
            num_key_value_heads=3, num_experts_per_tok=3, num_attention_heads=9, kv_channels=10, num_local_experts=5,
            intermediate_size=27, num_hidden_layers=2, rms_norm_eps=0.02, rope_theta=600.0, tie_word_embeddings=False,
            vocab_size=108,
        ), 262, 201, dtype="F32", shards=2,
    ),
    Case("lfm2_moe", _lfm(), 271, 24),
    Case(
        "lfm2_moe-long",
        _lfm(
            conv_L_cache=5, layer_types=["full_attention", "conv", "conv", "full_attention", "conv"],
            num_hidden_layers=5, num_dense_layers=0, norm_topk_prob=False, routed_scaling_factor=1.7,
            use_expert_bias=False, norm_eps=0.02, num_experts=11, num_experts_per_tok=2, rope_theta=700.0,
            tie_embedding=False, vocab_size=106,
        ), 272, 204, dtype="F16", shards=2,
    ),
    Case("minimax_m2", _minimax(), 281, 24),
    Case(
        "minimax_m2-long",
        _minimax(
            head_dim=18, rotary_dim=6, num_attention_heads=3, num_key_value_heads=1, num_local_experts=12,
            num_experts_per_tok=5, num_hidden_layers=2, rms_norm_eps=0.02, rope_theta=900, tie_word_embeddings=True,
            vocab_size=115,
        ), 282, 205, shards=2,
    ),
    Case("qwen3_next", _next(), 291, 24),
    Case(
        "qwen3_next-long",
        _next(
            attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=14,
            linear_value_head_dim=9, linear_conv_kernel_dim=3, mlp_only_layers=[1], norm_topk_prob=False,
            layer_types=["full_attention", "linear_attention", "linear_attention"], num_hidden_layers=3,
            partial_rotary_factor=0.5, rms_norm_eps=0.02, rope_theta=900.0, num_experts=11, tie_word_embeddings=True,
            vocab_size=113,
        ), 292, 213, dtype="F16", shards=2,
    ),
    Case("qwen3_5_moe", _qwen35(False), 301, 24),
    Case(
        "qwen3_5_moe-long",
        _qwen35(
            True, tie_word_embeddings=True, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=9,
            linear_value_head_dim=14,
            linear_conv_kernel_dim=5, layer_types=["linear_attention", "linear_attention", "full_attention"],
            num_hidden_layers=3, num_key_value_heads=4, rms_norm_eps=0.01, num_experts=7, num_experts_per_tok=2,
            shared_expert_intermediate_size=35, vocab_size=105,
            rope_parameters={"rope_type": "default", "rope_theta": 600.0, "partial_rotary_factor": 0.75},
        ), 302, 211, dtype="F32", shards=2,
    ),
    Case("qwen3_5_moe_text", {**_qwen35_text(), "tie_word_embeddings": False}, 303, 24),
    Case("llama4", _llama(), 311, 30),
    Case(
        "llama4-long",
        _llama(
            attention_bias=True, attention_chunk_size=50, attn_scale=0.9, floor_scale=17, head_dim=14,
            no_rope_layers=[1, 0, 1], num_experts_per_tok=2, num_hidden_layers=3, num_local_experts=6,
            rms_norm_eps=0.02, vocab_size=114,
            rope_scaling={**_LLAMA3, "factor": 5.0, "high_freq_factor": 8.0, "low_freq_factor": 2.0}, rope_theta=3000.0,
        ), 312, 207, dtype="F16", shards=2,
    ),
    Case("llama4_text", {**_llama_text(), "tie_word_embeddings": False}, 313, 25),
    Case(
        "llama4_text-long",
        {
            **_llama_text(
                attention_chunk_size=None, attn_temperature_tuning=False, moe_layers=[0, 2], no_rope_layer_interval=2,
                num_hidden_layers=3, rope_scaling=None, rope_theta=800.0, num_attention_heads=6, vocab_size=109,
            ), "tie_word_embeddings": True,
        }, 314, 202, dtype="F32",
    ),
    Case("llama4_maverick", _maverick(), 315, 24, shards=2),
    Case(
        "llama4_maverick-long",
        _maverick(
            attention_chunk_size=64, floor_scale=30, attn_scale=0.3, num_key_value_heads=4, intermediate_size=31,
            num_local_experts=9, rope_theta=1000.0, vocab_size=106,
        ), 316, 201, dtype="F32",
    ),
    Case("gemma4", _gemma(), 321, 24),
    Case(
        "gemma4-long",
        _gemma(
            attention_k_eq_v=False, final_logit_softcapping=None, global_head_dim=14, head_dim=18, layer_types=None,
            num_hidden_layers=7, num_global_key_value_heads=None, num_key_value_heads=4, rms_norm_eps=0.02,
            rope_parameters={
                "full_attention": {
                    "factor": 1.6, "partial_rotary_factor": 0.6, "rope_theta": 700.0, "rope_type": "proportional",
                }, "sliding_attention": {"rope_theta": 300.0, "rope_type": "default"},
            }, sliding_window=50, num_experts=11, top_k_experts=2, vocab_size=110,
        ), 322, 204, dtype="F16", shards=2,
    ),
    Case("gemma4_text", _gemma_text(num_global_key_value_heads=2, sliding_window=9), 323, 24, dtype="F32"),
)  # fmt: skip
