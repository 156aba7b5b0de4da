"""Constants of the families with latent attention that `test_every_constant_shows` changes."""

from __future__ import annotations

from typing import Any

_YARN = {
    "type": "yarn", "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip

CONSTANTS: list[tuple[str, dict[str, Any]]] = [
    ("deepseek_v2", {"n_group": 1, "topk_group": 1}),
    ("deepseek_v2", {"topk_method": "greedy"}),
    ("deepseek_v2", {"routed_scaling_factor": 1.0}),
    ("deepseek_v2-long", {"topk_group": 3}),
    ("deepseek_v2-long", {"rms_norm_eps": 1e-6}),
    ("deepseek_v2-long", {"rope_theta": 10000}),
    ("deepseek_v2_lite", {"rope_scaling": None}),
    ("deepseek_v2_lite", {"rope_scaling": {**_YARN, "mscale": 0.707, "mscale_all_dim": 1.0}}),
    ("deepseek_v2_lite", {"rope_scaling": {**_YARN, "mscale": 0.707, "mscale_all_dim": 0.0}}),
    ("deepseek_v2_lite-long", {"rope_theta": 10000}),
    ("deepseek_v3", {"n_group": 1, "topk_group": 1}),
    ("deepseek_v3", {"norm_topk_prob": False}),
    ("deepseek_v3", {"routed_scaling_factor": 2.0}),
    ("deepseek_v3", {"rope_interleave": False}),
    ("deepseek_v3", {"rope_scaling": {**_YARN, "factor": 20}}),
    ("deepseek_v3-long", {"rope_interleave": True}),
    ("deepseek_v3-long", {"topk_group": 2}),
    ("deepseek_v3-long", {"rms_norm_eps": 1e-6}),
    ("deepseek_v3-long", {"rope_scaling": {**_YARN, "mscale": 0.6, "factor": 4.0}}),
    ("deepseek_v3_moonlight", {"rope_theta": 10000}),
    ("deepseek_v3_moonlight-long", {"n_group": 1, "topk_group": 1}),
    ("kimi_k2", {"routed_scaling_factor": 2.5}),
    ("kimi_k2-long", {"num_experts_per_tok": 4}),
    ("kimi_k2-long", {"rope_scaling": {**_YARN, "beta_fast": 4.0, "factor": 8.0}}),
    ("deepseek_v32", {"index_topk": 10}),
    ("deepseek_v32-long", {"index_topk": 36}),
    ("deepseek_v32-long", {"index_topk": 2048}),
    ("deepseek_v32-long", {"rope_theta": 900.0}),
    ("deepseek_v32-long", {"rms_norm_eps": 1e-6}),
    ("glm4_moe_lite", {"routed_scaling_factor": 2.0}),
    ("glm4_moe_lite", {"rope_interleave": False}),
    ("glm4_moe_lite-long", {"rms_norm_eps": 1e-5}),
    ("glm4_moe_lite-long", {"norm_topk_prob": True}),
    ("glm4_moe_lite-long", {"rope_theta": 1600.0}),
    ("glm_moe_dsa", {"index_topk": 8}),
    ("glm_moe_dsa", {"rope_parameters": {"rope_theta": 10000, "rope_type": "default"}}),
    ("glm_moe_dsa-long", {"index_topk": 51}),
    ("glm_moe_dsa_shared", {"index_topk": 10}),
    ("glm_moe_dsa_shared-long", {"index_topk": 32}),
]
