"""The checkpoints that the forward pass is tested with: every family at least twice, with other sizes and constants.

Hardly a number here is round, on purpose: heads that do not divide the hidden size, odd numbers of experts, a width
that is no multiple of a vector, an eps that shows, a window shorter than the prompt. `-long` prompts pass 200 tokens.
"""

from __future__ import annotations

from typing import Any

from . import cases_latent, cases_more
from .checkpoints import Case

_COMMON: dict[str, Any] = {"hidden_act": "silu", "attention_dropout": 0.0, "use_cache": True, "initializer_range": 0.02}


def _olmoe(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "attention_bias": False,
        "clip_qkv": None, "hidden_size": 48, "intermediate_size": 20, "max_position_embeddings": 4096,
        "norm_topk_prob": False, "num_attention_heads": 4, "num_key_value_heads": 4, "num_experts": 9,
        "num_experts_per_tok": 3, "num_hidden_layers": 3, "rms_norm_eps": 1e-5, "rope_scaling": None,
        "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 131, **changes,
    }  # fmt: skip


def _qwen2(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "decoder_sparse_step": 1,
        "hidden_size": 48, "intermediate_size": 44, "max_position_embeddings": 8192, "max_window_layers": 21,
        "moe_intermediate_size": 20, "norm_topk_prob": False, "num_attention_heads": 4, "num_experts": 7,
        "num_experts_per_tok": 3, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "shared_expert_intermediate_size": 36, "sliding_window": 32768,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": 127,
        **changes,
    }  # fmt: skip


def _qwen3(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": False,
        "decoder_sparse_step": 1, "head_dim": 20, "hidden_size": 48, "intermediate_size": 44,
        "max_position_embeddings": 40960, "max_window_layers": 3, "mlp_only_layers": [], "moe_intermediate_size": 20,
        "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 12, "num_experts_per_tok": 4,
        "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_scaling": None,
        "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "use_sliding_window": False, "vocab_size": 127, **changes,
    }  # fmt: skip


def _mixtral(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 48,
        "intermediate_size": 36, "max_position_embeddings": 32768, "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2, "num_local_experts": 8,
        "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "vocab_size": 130, **changes,
    }  # fmt: skip


def _glm4(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "attention_bias": True,
        "head_dim": 20, "partial_rotary_factor": 0.5, "hidden_size": 48, "intermediate_size": 44,
        "max_position_embeddings": 131072, "moe_intermediate_size": 20, "norm_topk_prob": True,
        "num_attention_heads": 6, "n_group": 1, "topk_group": 1, "n_routed_experts": 11, "n_shared_experts": 1,
        "routed_scaling_factor": 2.5, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "num_hidden_layers": 3,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 1000000,
        "num_nextn_predict_layers": 1, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_qk_norm": True,
        "vocab_size": 127, **changes,
    }  # fmt: skip


def _dots1(**changes: Any) -> dict[str, Any]:
    return {
        **_COMMON, "architectures": ["Dots1ForCausalLM"], "model_type": "dots1", "attention_bias": False,
        "first_k_dense_replace": 1, "hidden_size": 48, "intermediate_size": 44, "max_position_embeddings": 32768,
        "max_window_layers": 62, "moe_intermediate_size": 20, "moe_layer_freq": 1, "n_routed_experts": 12,
        "n_shared_experts": 2, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 3,
        "num_hidden_layers": 3, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-5,
        "rope_scaling": None, "rope_theta": 10000000, "routed_scaling_factor": 2.5, "scoring_func": "noaux_tc",
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "use_sliding_window": False, "vocab_size": 127, **changes,
    }  # fmt: skip


def _without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
_YARN_NEW = {
    "rope_type": "yarn", "rope_theta": 30000.0, "factor": 6.0, "original_max_position_embeddings": 64,
    "attention_factor": 1.2, "beta_fast": 8, "beta_slow": 2, "truncate": False,
}  # fmt: skip
_LINEAR = {"rope_type": "linear", "factor": 2.5}

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("olmoe", _olmoe(), 11, 24),
        Case(
            "olmoe-long",
            _olmoe(
                hidden_size=60, num_attention_heads=6, num_key_value_heads=2, intermediate_size=33, num_experts=13,
                num_experts_per_tok=5, num_hidden_layers=2, rope_theta=700.0, rms_norm_eps=0.02, norm_topk_prob=True,
                clip_qkv=0.9, attention_bias=True, vocab_size=113,
            ), 12, 203, dtype="F32", shards=3,
        ),
        Case("qwen2_moe", _qwen2(), 21, 24),
        Case(
            "qwen2_moe-long",
            _qwen2(
                hidden_size=72, num_attention_heads=6, num_key_value_heads=3, rope_theta=5000.0, rope_scaling=_LINEAR,
                moe_intermediate_size=27, shared_expert_intermediate_size=50, num_hidden_layers=2, num_experts=17,
                rms_norm_eps=0.01, vocab_size=116,
            ), 22, 201, dtype="F16", shards=2,
        ),
        Case(
            "qwen2_moe_mixed",
            _qwen2(
                decoder_sparse_step=2, mlp_only_layers=[3], norm_topk_prob=True, num_experts=9, num_experts_per_tok=2,
                num_hidden_layers=6, tie_word_embeddings=True,
            ), 23, 25,
        ),
        Case(
            "qwen2_moe_mixed-long",
            _qwen2(
                mlp_only_layers=[0], use_sliding_window=True, sliding_window=9, max_window_layers=3, qkv_bias=False,
                num_hidden_layers=5, num_experts=5, rope_theta=2000.0, vocab_size=111,
            ), 24, 210,
        ),
        Case("qwen3_moe", _qwen3(), 31, 24, shards=3),
        Case(
            "qwen3_moe-long",
            _qwen3(
                head_dim=14, num_attention_heads=3, num_key_value_heads=1, hidden_size=50, norm_topk_prob=False,
                rope_theta=20000.0, rms_norm_eps=0.02, use_sliding_window=True, sliding_window=31, max_window_layers=1,
                num_experts=19, vocab_size=109,
            ), 32, 205, dtype="F16",
        ),
        Case(
            "qwen3_moe_mixed",
            _qwen3(
                attention_bias=True, rope_scaling=_YARN, mlp_only_layers=[0, 2], tie_word_embeddings=True,
                num_experts=11, num_experts_per_tok=3, num_hidden_layers=4, norm_topk_prob=False,
                max_position_embeddings=128,
            ), 33, 24,
        ),
        Case(
            "qwen3_moe_mixed-long",
            _without(
                _qwen3(
                    attention_bias=True, rope_parameters=_YARN_NEW, decoder_sparse_step=2, num_local_experts=10,
                    num_hidden_layers=4, head_dim=16, max_position_embeddings=384, vocab_size=107,
                ), "num_experts", "rope_theta", "rope_scaling",
            ), 34, 203,
        ),
        Case("mixtral", _mixtral(), 41, 24),
        Case(
            "mixtral-long",
            _mixtral(
                head_dim=18, num_key_value_heads=1, hidden_size=56, num_local_experts=5, num_experts_per_tok=3,
                tie_word_embeddings=True, rope_scaling=_LINEAR, rope_theta=8000.0, intermediate_size=41,
                rms_norm_eps=0.02, vocab_size=114,
            ), 42, 207, shards=2,
        ),
        Case("mixtral_swa", _mixtral(sliding_window=7, rope_theta=10000.0), 43, 24),
        Case(
            "mixtral_swa-long",
            _mixtral(sliding_window=50, rope_theta=300.0, num_local_experts=7, num_hidden_layers=2, vocab_size=108),
            44, 220, dtype="F32",
        ),
        Case("glm4_moe", _glm4(), 51, 24),
        Case(
            "glm4_moe-long",
            _glm4(
                n_group=3, topk_group=2, n_routed_experts=12, norm_topk_prob=False, routed_scaling_factor=0.7,
                head_dim=16, partial_rotary_factor=0.25, n_shared_experts=2, rms_norm_eps=0.01,
                first_k_dense_replace=2, num_hidden_layers=4, rope_theta=900.0, vocab_size=110,
            ), 52, 204, dtype="F16", shards=2,
        ),
        Case("glm4_moe_air", _glm4(use_qk_norm=False, routed_scaling_factor=1.0), 53, 24),
        Case(
            "glm4_moe_air-long",
            _glm4(
                use_qk_norm=False, attention_bias=False, n_group=2, topk_group=1, n_routed_experts=10,
                routed_scaling_factor=1.4, first_k_dense_replace=0, tie_word_embeddings=True,
                num_nextn_predict_layers=0, num_attention_heads=3, num_key_value_heads=3, num_hidden_layers=2,
                vocab_size=112,
            ), 54, 202, dtype="F32",
        ),
        Case("dots1", _dots1(), 61, 24),
        Case(
            "dots1-long",
            _dots1(
                n_group=2, topk_group=1, n_routed_experts=14, sliding_window=40, max_window_layers=2,
                norm_topk_prob=False, routed_scaling_factor=1.3, attention_bias=True, n_shared_experts=1,
                num_key_value_heads=2, rope_theta=3000.0, vocab_size=115,
            ), 62, 202, shards=2,
        ),
        *cases_latent.CASES,
        *cases_more.CASES,
    )
}  # fmt: skip
