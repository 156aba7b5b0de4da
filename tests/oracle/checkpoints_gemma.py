"""Gemma 4's layers: a dense MLP beside the experts, norms around everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .drawn import NORM, ROUTER, Tensor, linear, mlp, norm

KINDS = ("gemma4", "gemma4_text")
"""Their model types."""

_STRONG = 5.0
"""What a sublayer returns is normed to about this: embeddings are large, and must not drown it."""


def _is_full(text: dict[str, Any], number: int) -> bool:
    """Whether a layer sees everything; the last one does, whatever the config says."""
    default = ["sliding_attention"] * 5 + ["full_attention"]
    types = text.get("layer_types") or [default[index % 6] for index in range(text["num_hidden_layers"])]
    return number == text["num_hidden_layers"] - 1 or types[number] == "full_attention"


def _attention(text: dict[str, Any], number: int, stem: str) -> Iterator[Tensor]:
    hidden, heads, kv_heads, dim = (
        text[key] for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    )
    full = _is_full(text, number)
    shared = full and text["attention_k_eq_v"]
    if full:
        dim = text["global_head_dim"]
    if shared:
        kv_heads = text["num_global_key_value_heads"]
    yield linear(f"{stem}.q_proj.weight", heads * dim, hidden)
    yield linear(f"{stem}.k_proj.weight", kv_heads * dim, hidden)
    if not shared:
        yield linear(f"{stem}.v_proj.weight", kv_heads * dim, hidden)
    yield linear(f"{stem}.o_proj.weight", hidden, heads * dim)
    for part in ("q", "k"):  # scores are not scaled
        yield Tensor(f"{stem}.{part}_norm.weight", (dim,), NORM, centre=0.6)


def layer(text: dict[str, Any], number: int, stem: str) -> Iterator[Tensor]:
    """All tensors of a layer."""
    hidden, experts, width = text["hidden_size"], text["num_experts"], text["moe_intermediate_size"]
    for name in ("input", "pre_feedforward"):
        yield norm(f"{stem}.{name}_layernorm.weight", hidden)
    for name in ("post_attention", "post_feedforward"):
        yield Tensor(f"{stem}.{name}_layernorm.weight", (hidden,), NORM, centre=_STRONG)
    for name in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
        yield norm(f"{stem}.{name}.weight", hidden)
    yield Tensor(f"{stem}.layer_scalar", (1,), 0.15, centre=0.8)
    yield from _attention(text, number, f"{stem}.self_attn")
    yield from mlp(f"{stem}.mlp", hidden, text["intermediate_size"])
    yield Tensor(f"{stem}.router.proj.weight", (experts, hidden), ROUTER)
    yield norm(f"{stem}.router.scale", hidden)
    yield norm(f"{stem}.router.per_expert_scale", experts)
    yield Tensor(f"{stem}.experts.gate_up_proj", (experts, 2 * width, hidden), 1.5 * hidden**-0.5)
    yield Tensor(f"{stem}.experts.down_proj", (experts, hidden, width), 1.5 * width**-0.5)


def ignored(text: dict[str, Any]) -> Iterator[Tensor]:
    """Some of what sees, and what joins it to the text model."""
    if text["model_type"] == "gemma4":
        yield linear("model.embed_vision.embedding_projection.weight", text["hidden_size"], 32)
        yield norm("model.vision_tower.encoder.layers.0.input_layernorm.weight", 32)
