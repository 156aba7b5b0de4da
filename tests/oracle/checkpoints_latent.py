"""The attention of the families with latent attention, and what else tells them from the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .drawn import BIAS, Tensor, linear, norm

KINDS = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa")
"""Their model types."""

SPARSE = ("deepseek_v32", "glm_moe_dsa")
"""Those with an indexer."""


def is_dense(config: dict[str, Any], layer: int) -> bool:
    """Whether a layer has no router."""
    if config["model_type"] == "glm4_moe_lite":
        return layer == 0
    return bool(layer < config["first_k_dense_replace"])


def has_indexer(config: dict[str, Any], layer: int) -> bool:
    """Whether a layer selects keys itself."""
    if config["model_type"] not in SPARSE:
        return False
    if layer >= config["num_hidden_layers"]:  # multi-token prediction has an indexer of its own
        return True
    if "indexer_types" in config:
        return bool(config["indexer_types"][layer] == "full")
    every, first = config.get("index_topk_freq", 1), config.get("index_skip_topk_offset", 2)
    return bool(max(layer - first + 1, 0) % every == 0)


def attention(config: dict[str, Any], layer: int, stem: str) -> Iterator[Tensor]:
    """Projections down and up, and the indexer."""
    hidden, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    biased, compressed = config.get("attention_bias", False), config["q_lora_rank"]
    if compressed is None:
        yield linear(f"{stem}.q_proj.weight", heads * (nope + rope), hidden, 1.6)
    else:
        yield linear(f"{stem}.q_a_proj.weight", compressed, hidden, 1.3)
        yield norm(f"{stem}.q_a_layernorm.weight", compressed)
        yield linear(f"{stem}.q_b_proj.weight", heads * (nope + rope), compressed, 1.6)
    yield linear(f"{stem}.kv_a_proj_with_mqa.weight", rank + rope, hidden, 1.6)
    yield norm(f"{stem}.kv_a_layernorm.weight", rank)
    yield linear(f"{stem}.kv_b_proj.weight", heads * (nope + value), rank, 1.6)
    yield linear(f"{stem}.o_proj.weight", hidden, heads * value, 1.5)
    if biased:
        if compressed is not None:
            yield Tensor(f"{stem}.q_a_proj.bias", (compressed,), BIAS)
        yield Tensor(f"{stem}.kv_a_proj_with_mqa.bias", (rank + rope,), BIAS)
        yield Tensor(f"{stem}.o_proj.bias", (hidden,), BIAS)
    if has_indexer(config, layer):
        yield from _indexer(config, f"{stem}.indexer")


def _indexer(config: dict[str, Any], stem: str) -> Iterator[Tensor]:
    heads, dim = config["index_n_heads"], config["index_head_dim"]
    yield linear(f"{stem}.wq_b.weight", heads * dim, config["q_lora_rank"], 1.5)
    yield linear(f"{stem}.wk.weight", dim, config["hidden_size"])
    yield norm(f"{stem}.k_norm.weight", dim)
    yield Tensor(f"{stem}.k_norm.bias", (dim,), BIAS)
    yield linear(f"{stem}.weights_proj.weight", heads, config["hidden_size"], 1.5)
