"""Latent attention as the configs of DeepSeek's and GLM's models describe it."""

from __future__ import annotations

from dataclasses import replace

from ..model.spec import Indexer, LatentAttention
from .config import Config


def latent_attention(config: Config, *, pairs: bool = True, indexer_pairs: bool | None = None) -> LatentAttention:
    """Read latent attention, with an indexer if `indexer_pairs` says how that one rotates.

    A null or absent `q_lora_rank` means that queries are not compressed. `num_key_value_heads` says nothing here: every
    head has a key of its own.
    """
    sparse = indexer_pairs is not None
    indexer = None
    if indexer_pairs is not None:
        indexer = Indexer(config.integer("index_n_heads"), config.integer("index_head_dim"), indexer_pairs)
    return LatentAttention(
        heads=config.integer("num_attention_heads"),
        q_rank=config.integer("q_lora_rank") if sparse or config.has("q_lora_rank") else None,
        kv_rank=config.integer("kv_lora_rank"),
        nope_dim=config.integer("qk_nope_head_dim"),
        value_dim=config.integer("v_head_dim"),
        rope=replace(config.rope(config.integer("qk_rope_head_dim")), pairs=pairs),
        bias=config.flag("attention_bias", False),
        top_k=config.integer("index_topk", 2048) if sparse else None,
        indexer=indexer,
    )
