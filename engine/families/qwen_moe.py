"""Qwen2-MoE and Qwen3-MoE: softmax router; dense layers by `mlp_only_layers` and `decoder_sparse_step`.

Qwen2-MoE has biased q, k, v and a shared expert behind a sigmoid gate; Qwen3-MoE normalises each head of q and k.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

QWEN2_NAMES: dict[Role, str] = {
    **STANDARD,
    "shared_gate": "model.layers.{L}.mlp.shared_expert.gate_proj.weight",
    "shared_up": "model.layers.{L}.mlp.shared_expert.up_proj.weight",
    "shared_down": "model.layers.{L}.mlp.shared_expert.down_proj.weight",
    "shared_expert_gate": "model.layers.{L}.mlp.shared_expert_gate.weight",
}


def _spec(
    config: Config,
    attention: Attention,
    mixture: Mixture,
    *,
    family: str,
    windows: list[int | None],
    names: dict[Role, str],
) -> ModelSpec:
    dense_layers, step = config.layer_list("mlp_only_layers"), config.integer("decoder_sparse_step", 1)
    layers = []
    for index, window in enumerate(windows):
        sparse = index not in dense_layers and (index + 1) % step == 0
        mlp = mixture if sparse else DenseMlp(config.integer("intermediate_size"))
        layers.append(Layer(replace(attention, window=window), mlp))
    return ModelSpec(
        family=family,
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(layers),
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 32768, high=1 << 31),
        names=names,
    )


def qwen2_spec(config: Config) -> ModelSpec:
    """Read a qwen2_moe config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim),
        qkv_bias=config.flag("qkv_bias", True),
    )
    mixture = Mixture(
        Router("softmax", config.integer("num_experts_per_tok", 4), config.flag("norm_topk_prob", False)),
        config.experts(60),
        config.integer("moe_intermediate_size"),
        shared_width=config.integer("shared_expert_intermediate_size"),
        shared_gated=True,
    )
    sliding, limit = config.flag("use_sliding_window", False), config.integer("max_window_layers", 28, low=0)
    windows = config.windows(
        config.sliding_window(4096) if sliding else None,
        # Every second layer, and none from `max_window_layers` on: what the reference does when asked for windows.
        [sliding and index % 2 == 0 and index < limit for index in range(config.layers())],
    )
    return _spec(config, attention, mixture, family="qwen2_moe", windows=windows, names=QWEN2_NAMES)


def qwen3_spec(config: Config) -> ModelSpec:
    """Read a qwen3_moe config."""
    heads = config.integer("num_attention_heads")
    head_dim = config.head_dim()
    bias = config.flag("attention_bias", False)
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim),
        qk_norm="head",
        qkv_bias=bias,
        out_bias=bias,
    )
    mixture = Mixture(
        Router("softmax", config.integer("num_experts_per_tok", 8), config.flag("norm_topk_prob", False)),
        config.experts(128),
        config.integer("moe_intermediate_size"),
    )
    window = config.sliding_window(4096) if config.flag("use_sliding_window", False) else None
    windows = [window] * config.layers()
    return _spec(config, attention, mixture, family="qwen3_moe", windows=windows, names=STANDARD)
