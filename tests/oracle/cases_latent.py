"""The cases of families with latent attention: every family with its usual constants and, `-long`, with others.

Value heads are wider and narrower than keys; `index_topk` is far below the prompt, 16 heads keep index scores from
being zero together.
"""

from __future__ import annotations

from typing import Any

from .checkpoints import Case

_COMMON: dict[str, Any] = {
    "hidden_act": "silu", "attention_dropout": 0.0, "attention_bias": False, "use_cache": True,
    "initializer_range": 0.02, "moe_layer_freq": 1, "pretraining_tp": 1, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "hidden_size": 48, "intermediate_size": 44, "moe_intermediate_size": 20,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 3, "vocab_size": 127,
    "kv_lora_rank": 20, "q_lora_rank": 28, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
}  # fmt: skip


def _yarn(mscale: float, all_dims: float, **changes: Any) -> dict[str, Any]:
    return {
        "type": "yarn", "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": mscale, "mscale_all_dim": all_dims,
        "original_max_position_embeddings": 64, **changes,
    }  # fmt: skip


def _v2(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
        "first_k_dense_replace": 1, "max_position_embeddings": 2560, "n_group": 3, "n_routed_experts": 12,
        "n_shared_experts": 2, "norm_topk_prob": False, "num_experts_per_tok": 3, "rms_norm_eps": 1e-6,
        "rope_scaling": _yarn(0.707, 0.707), "rope_theta": 10000, "routed_scaling_factor": 4.0,
        "scoring_func": "softmax", "topk_group": 2, "topk_method": "group_limited_greedy", **changes,
    }  # fmt: skip


def _v2_lite(**changes: Any) -> dict[str, Any]:
    return _v2(
        **{
            "q_lora_rank": None, "n_group": 1, "topk_group": 1, "topk_method": "greedy", "n_routed_experts": 11,
            "routed_scaling_factor": 1.0, **changes,
        }
    )  # fmt: skip


def _v3(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
        "first_k_dense_replace": 1, "max_position_embeddings": 2560, "n_group": 4, "n_routed_experts": 12,
        "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 3, "num_nextn_predict_layers": 1,
        "rms_norm_eps": 1e-6, "rope_scaling": _yarn(1.0, 1.0), "rope_theta": 10000, "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid", "topk_group": 2, "topk_method": "noaux_tc", **changes,
    }  # fmt: skip


def _moonlight(**changes: Any) -> dict[str, Any]:
    return _v3(
        **{
            "q_lora_rank": None, "rope_scaling": None, "rope_theta": 50000.0, "n_group": 1, "topk_group": 1,
            "n_routed_experts": 13, "n_shared_experts": 2, "routed_scaling_factor": 2.446, "rms_norm_eps": 1e-5,
            "num_nextn_predict_layers": 0, **changes,
        }
    )  # fmt: skip


def _kimi(**changes: Any) -> dict[str, Any]:
    return _v3(
        **{
            "model_type": "kimi_k2", "n_group": 1, "topk_group": 1, "n_routed_experts": 13,
            "routed_scaling_factor": 2.827, "rope_theta": 50000.0, "num_nextn_predict_layers": 0,
            "rope_scaling": _yarn(1.0, 1.0, beta_fast=1.0, beta_slow=1.0, factor=32.0), **changes,
        }
    )  # fmt: skip


_INDEX = {"index_head_dim": 16, "index_n_heads": 16, "index_topk": 9}


def _v32(**changes: Any) -> dict[str, Any]:
    return _v3(**{"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"], **_INDEX, **changes})


def _lite(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite",
        "max_position_embeddings": 202752, "topk_method": "noaux_tc", "norm_topk_prob": True, "n_group": 1,
        "topk_group": 1, "n_routed_experts": 11, "n_shared_experts": 1, "routed_scaling_factor": 1.8,
        "num_experts_per_tok": 4, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
        "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 1000000,
        "num_attention_heads": 5, "num_key_value_heads": 5, "qk_nope_head_dim": 14, "v_head_dim": 22, **changes,
    }  # fmt: skip


def _dsa(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, **_INDEX, "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "ep_size": 1,
        "first_k_dense_replace": 1, "head_dim": 8, "indexer_rope_interleave": True, "rope_interleave": True,
        "max_position_embeddings": 202752, "n_group": 1, "topk_group": 1, "n_routed_experts": 12,
        "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 3, "num_nextn_predict_layers": 1,
        "rms_norm_eps": 1e-5, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "v_head_dim": 22, **changes,
    }  # fmt: skip


CASES = (
    Case("deepseek_v2", _v2(), 101, 24),
    Case(
        "deepseek_v2-long",
        _v2(
            n_group=5, topk_group=2, n_routed_experts=15, routed_scaling_factor=2.0, attention_bias=True,
            rope_scaling=_yarn(0.9, 0.6, factor=6.0, beta_fast=8), rope_theta=3000.0,
            num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=34, rms_norm_eps=0.02, v_head_dim=17,
            first_k_dense_replace=2, num_hidden_layers=4, vocab_size=109,
        ), 102, 203, dtype="F16", shards=2,
    ),
    Case("deepseek_v2_lite", _v2_lite(), 103, 24),
    Case(
        "deepseek_v2_lite-long",
        _v2_lite(
            attention_bias=True, rope_scaling=None, rope_theta=500.0, first_k_dense_replace=0, qk_rope_head_dim=6,
            kv_lora_rank=40, qk_nope_head_dim=10, num_hidden_layers=2, n_shared_experts=1, tie_word_embeddings=True,
            num_experts_per_tok=4, vocab_size=112,
        ), 104, 210, dtype="F32",
    ),
    Case("deepseek_v3", _v3(), 111, 24, shards=3),
    Case(
        "deepseek_v3-long",
        _v3(
            rope_interleave=False, attention_bias=True, n_group=3, topk_group=1, norm_topk_prob=False,
            routed_scaling_factor=1.3, rope_scaling=_yarn(0.5, 1.0, factor=4.0), rope_theta=2000.0,
            kv_lora_rank=35, q_lora_rank=17, num_attention_heads=7, num_key_value_heads=7, qk_nope_head_dim=9,
            v_head_dim=13, num_nextn_predict_layers=2, rms_norm_eps=0.01, vocab_size=110,
        ), 112, 201, dtype="F16",
    ),
    Case("deepseek_v3_moonlight", _moonlight(), 121, 24),
    Case(
        "deepseek_v3_moonlight-long",
        _moonlight(
            n_group=7, topk_group=4, n_routed_experts=14, first_k_dense_replace=0, num_hidden_layers=2,
            rope_theta=900.0, qk_rope_head_dim=10, n_shared_experts=1, tie_word_embeddings=True, vocab_size=114,
        ), 122, 206, shards=2,
    ),
    Case("kimi_k2", _kimi(), 131, 24),
    Case(
        "kimi_k2-long",
        _kimi(
            num_attention_heads=2, num_key_value_heads=2, kv_lora_rank=48, n_routed_experts=17, num_experts_per_tok=5,
            rope_scaling=_yarn(1.0, 1.0, beta_fast=4.0, beta_slow=2.0, factor=8.0), first_k_dense_replace=2,
            rope_theta=700.0, vocab_size=108,
        ), 132, 202,
    ),
    Case("deepseek_v32", _v32(), 141, 24),
    Case(
        "deepseek_v32-long",
        _v32(
            index_topk=37, index_head_dim=10, index_n_heads=19, n_group=2, topk_group=1, rope_theta=800.0,
            kv_lora_rank=37, num_attention_heads=3, num_key_value_heads=3, first_k_dense_replace=2, attention_bias=True,
            rope_scaling=_yarn(0.7, 1.0, factor=5.0), rms_norm_eps=0.01, vocab_size=111,
        ), 142, 230, dtype="F32", shards=2,
    ),
    Case("glm4_moe_lite", _lite(), 151, 24),
    Case(
        "glm4_moe_lite-long",
        _lite(
            q_lora_rank=None, num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=26, routed_scaling_factor=0.9,
            norm_topk_prob=False, n_group=2, topk_group=1, n_routed_experts=12, rope_theta=1500.0, rms_norm_eps=0.02,
            qk_nope_head_dim=20, v_head_dim=9, n_shared_experts=2, num_nextn_predict_layers=0, vocab_size=113,
        ), 152, 204, dtype="F16",
    ),
    Case("glm_moe_dsa", _dsa(), 161, 24, shards=2),
    Case(
        "glm_moe_dsa-long",
        _dsa(
            index_topk=50, index_head_dim=24, index_n_heads=17, num_attention_heads=5, num_key_value_heads=5,
            qk_nope_head_dim=18, routed_scaling_factor=1.2, first_k_dense_replace=2, num_hidden_layers=4,
            rope_parameters={"rope_theta": 900.0, "rope_type": "default"}, rms_norm_eps=0.02, vocab_size=107,
        ), 162, 220, dtype="F16",
    ),
    Case(
        "glm_moe_dsa_shared",
        _dsa(indexer_types=["full", "shared", "full", "shared", "shared"], num_hidden_layers=5), 163, 24,
    ),
    Case(
        "glm_moe_dsa_shared-long",
        _dsa(
            index_topk=33, index_topk_freq=2, index_skip_topk_offset=1, num_hidden_layers=4, kv_lora_rank=29,
            num_nextn_predict_layers=0, attention_bias=True, tie_word_embeddings=True,
            rope_parameters={"rope_theta": 4000.0, "rope_type": "default"}, vocab_size=106,
        ), 164, 208, dtype="F32",
    ),
)  # fmt: skip
