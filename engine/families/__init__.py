"""Model families: config.json -> ModelSpec. One small file a family; a new one is added to FAMILIES."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import UnsupportedModelError
from ..model.rope import inverse_frequencies
from ..model.spec import Mixture, ModelSpec
from . import glm4_moe, mixtral, olmoe, qwen_moe
from .config import Config, shown

FAMILIES: dict[str, Callable[[Config], ModelSpec]] = {
    "dots1": glm4_moe.dots1_spec,
    "glm4_moe": glm4_moe.glm4_spec,
    "mixtral": mixtral.spec,
    "olmoe": olmoe.spec,
    "qwen2_moe": qwen_moe.qwen2_spec,
    "qwen3_moe": qwen_moe.qwen3_spec,
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
    quantisation = values.get("quantization_config")
    if quantisation:
        method = quantisation.get("quant_method") if isinstance(quantisation, Mapping) else quantisation
        raise UnsupportedModelError(f"config.json: quantisation {shown(method)} is not supported; use the bf16 release")
    config = Config(values)
    config.expect("hidden_act", None, "silu")
    spec = FAMILIES[model_type](config)
    _check(spec)
    return spec


def _check(spec: ModelSpec) -> None:
    """Refuse sizes that contradict each other before anything is allocated by them."""
    for rope in {id(layer.attention.rope): layer.attention.rope for layer in spec.layers}.values():
        inverse_frequencies(rope)
    for index, layer in enumerate(spec.layers):
        attention, mlp = layer.attention, layer.mlp
        if attention.heads % attention.kv_heads:
            raise UnsupportedModelError(
                f"config.json: {attention.heads} heads cannot share {attention.kv_heads} key/value heads"
            )
        if isinstance(mlp, Mixture):
            router = mlp.router
            if router.top_k > mlp.experts:
                raise UnsupportedModelError(
                    f"config.json: layer {index} chooses {router.top_k} of only {mlp.experts} experts"
                )
            group = mlp.experts // router.groups
            if (
                group * router.groups != mlp.experts
                or not 1 <= router.top_groups <= router.groups
                or (router.groups > 1 and (group < 2 or group * router.top_groups < router.top_k))
            ):
                raise UnsupportedModelError(
                    f"config.json: layer {index} cannot choose {router.top_k} experts from {router.top_groups} of "
                    f"{router.groups} groups of {mlp.experts} experts"
                )
    if not spec.moe_layers:
        raise UnsupportedModelError("config.json: this model has no layer with experts")
