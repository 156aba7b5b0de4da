"""Model families: config.json -> ModelSpec. One small file a family; a new one is added to FAMILIES."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..errors import UnsupportedModelError
from ..model.rope import inverse_frequencies, longest, softmax_factor
from ..model.spec import Attention, LatentAttention, Mixture, ModelSpec, Rope
from . import (
    deepseek,
    ernie,
    gemma4,
    glm4_moe,
    glm_latent,
    gpt_oss,
    granite,
    hunyuan,
    jetmoe,
    lfm2,
    llama4,
    minimax,
    mixtral,
    olmoe,
    phimoe,
    qwen_hybrid,
    qwen_moe,
)
from .config import Config, shown
from .quantisation import read_quantisation

FAMILIES: dict[str, Callable[[Config], ModelSpec]] = {
    "deepseek_v2": deepseek.v2_spec,
    "deepseek_v3": deepseek.v3_spec,
    "deepseek_v32": deepseek.v32_spec,
    "dots1": glm4_moe.dots1_spec,
    "ernie4_5_moe": ernie.spec,
    "flex_olmo": olmoe.flex_spec,
    "gemma4": gemma4.composite_spec,
    "gemma4_text": gemma4.text_spec,
    "glm4_moe": glm4_moe.glm4_spec,
    "glm4_moe_lite": glm_latent.lite_spec,
    "glm_moe_dsa": glm_latent.dsa_spec,
    "gpt_oss": gpt_oss.spec,
    "granitemoe": granite.spec,
    "granitemoeshared": granite.spec,
    "hunyuan_v1_moe": hunyuan.spec,
    "kimi_k2": deepseek.v3_spec,
    "jetmoe": jetmoe.spec,
    "lfm2_moe": lfm2.spec,
    "llama4": llama4.composite_spec,
    "llama4_text": llama4.text_spec,
    "minimax_m2": minimax.spec,
    "mixtral": mixtral.spec,
    "olmoe": olmoe.spec,
    "phimoe": phimoe.spec,
    "qwen2_moe": qwen_moe.qwen2_spec,
    "qwen3_5_moe": qwen_hybrid.composite_spec,
    "qwen3_5_moe_text": qwen_hybrid.text_spec,
    "qwen3_moe": qwen_moe.qwen3_spec,
    "qwen3_next": qwen_hybrid.next_spec,
}
"""By config.json's `model_type`."""


def read_spec(values: Mapping[str, Any]) -> ModelSpec:
    """Turn a config.json into a ModelSpec; UnsupportedModelError names what cannot be run."""
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        nearest = difflib.get_close_matches(str(model_type)[:80], FAMILIES, 1, 0.4)
        hint = f"; the nearest supported is {nearest[0]}" if nearest else ""
        known = ", ".join(sorted(FAMILIES))
        raise UnsupportedModelError(
            f"config.json: model_type {shown(model_type)} is not supported{hint} (supported: {known})"
        )
    quantisation = read_quantisation(values)
    config = Config(values)
    config.expect("hidden_act", None, "silu")
    spec = replace(FAMILIES[model_type](config), quantisation=quantisation)
    _check(spec)
    ends = [end for rope in _ropes(spec) if (end := longest(rope)) is not None]
    return replace(spec, max_context=min([spec.max_context, *ends]))


def _ropes(spec: ModelSpec) -> list[Rope]:
    """Every rotary embedding once."""
    ropes = {id(rope): rope for layer in spec.layers if (rope := getattr(layer.attention, "rope", None))}
    return list(ropes.values())


def _check(spec: ModelSpec) -> None:
    """Refuse sizes that contradict each other before anything is allocated by them."""
    for rope in _ropes(spec):
        inverse_frequencies(rope)
        softmax_factor(rope)
    for index, layer in enumerate(spec.layers):
        match layer.attention:
            case Attention():
                _check_grouped(layer.attention)
            case LatentAttention():
                _check_latent(index, spec)
        if isinstance(layer.mlp, Mixture):
            _check_mixture(index, layer.mlp)
    if not spec.moe_layers:
        raise UnsupportedModelError("config.json: this model has no layer with experts")


def _check_grouped(attention: Attention) -> None:
    if attention.heads % attention.kv_heads:
        raise UnsupportedModelError(
            f"config.json: {attention.heads} heads cannot share {attention.kv_heads} key/value heads"
        )


def _check_latent(index: int, spec: ModelSpec) -> None:
    attention = spec.layers[index].attention
    assert isinstance(attention, LatentAttention)
    if attention.indexer is not None and attention.indexer.dim < attention.rope.dim:
        raise UnsupportedModelError(
            f"config.json: an indexer's heads of {attention.indexer.dim} cannot rotate {attention.rope.dim}"
        )
    before = [layer.attention for layer in spec.layers[: index + 1]]
    if attention.top_k and not any(isinstance(kind, LatentAttention) and kind.indexer for kind in before):
        raise UnsupportedModelError(f"config.json: layer {index} has no indexer, and no layer before it either")


def _check_mixture(index: int, mixture: Mixture) -> None:
    router, experts = mixture.router, mixture.experts
    if router.top_k > experts:
        raise UnsupportedModelError(f"config.json: layer {index} chooses {router.top_k} of only {experts} experts")
    group = experts // router.groups
    if (
        group * router.groups != experts
        or not 1 <= router.top_groups <= router.groups
        or (router.groups > 1 and (group < router.group_best or group * router.top_groups < router.top_k))
    ):
        raise UnsupportedModelError(
            f"config.json: layer {index} cannot choose {router.top_k} experts from {router.top_groups} of "
            f"{router.groups} groups of {experts} experts"
        )
