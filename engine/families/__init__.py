"""Model families: config.json -> ModelSpec. One small file a family; a new one is added to FAMILIES."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import UnsupportedModelError
from ..model.spec import Mixture, ModelSpec
from . import glm4_moe, mixtral, olmoe, qwen_moe
from .config import Config

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
    if model_type not in FAMILIES:
        nearest = difflib.get_close_matches(str(model_type), FAMILIES, 1, 0.4)
        hint = f"; the nearest supported is {nearest[0]}" if nearest else ""
        known = ", ".join(sorted(FAMILIES))
        raise UnsupportedModelError(f"config.json: model_type {model_type!r} is not supported{hint} (supported: {known})")
    quantisation = values.get("quantization_config")
    if quantisation:
        method = quantisation.get("quant_method") if isinstance(quantisation, Mapping) else quantisation
        raise UnsupportedModelError(f"config.json: quantisation {method!r} is not supported; use the bf16 release")
    config = Config(values)
    config.expect("hidden_act", None, "silu")
    spec = FAMILIES[str(model_type)](config)
    _check(spec)
    return spec


def _check(spec: ModelSpec) -> None:
    """Refuse sizes that contradict each other before anything is allocated by them."""
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
            if mlp.experts % router.groups or not 1 <= router.top_groups <= router.groups:
                raise UnsupportedModelError(
                    f"config.json: layer {index} cannot choose {router.top_groups} of {router.groups} groups "
                    f"of {mlp.experts} experts"
                )
    if not spec.moe_layers:
        raise UnsupportedModelError("config.json: this model has no layer with experts")
