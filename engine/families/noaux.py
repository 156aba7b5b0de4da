"""What the families after DeepSeek-V3 have in common: its router (`noaux_tc`), dense layers before the sparse ones.

Sigmoid scores; the correction bias selects, the unbiased scores weigh. Shared experts are one MLP, added as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnsupportedModelError
from ..model.spec import Attention, DenseMlp, LatentAttention, Layer, Mixture, Router
from .config import Config

RENORM_EPS = 1e-20


def noaux_mixture(
    config: Config,
    *,
    experts: int,
    norm_topk_prob: bool = True,
    scaling: float = 1.0,
    shared_experts: int = 1,
    groups: int = 1,
    top_groups: int = 1,
) -> Mixture:
    """The mixture of a config; the arguments are the family's defaults."""
    router = Router(
        "sigmoid",
        config.integer("num_experts_per_tok"),
        config.flag("norm_topk_prob", norm_topk_prob),
        renorm_eps=RENORM_EPS,
        scaling=config.number("routed_scaling_factor", scaling),
        correction_bias=True,
        groups=config.integer("n_group", groups),
        top_groups=config.integer("topk_group", top_groups),
    )
    width = config.integer("moe_intermediate_size")
    shared = config.integer("n_shared_experts", shared_experts, low=0) * width
    return Mixture(router, config.experts(experts), width, shared_width=shared)


def first_layers_dense(config: Config, default: int) -> list[bool]:
    """Which layers are dense by `first_k_dense_replace`."""
    dense = config.integer("first_k_dense_replace", default, low=0)
    return [index < dense for index in range(config.layers())]


def dense_by_type(config: Config, otherwise: list[bool]) -> list[bool]:
    """Which layers are dense by `mlp_layer_types`, where the config has that."""
    types = config.values.get("mlp_layer_types")
    if types is None:
        return otherwise
    known = {"dense": True, "sparse": False}
    if (
        not isinstance(types, list)
        or len(types) != len(otherwise)
        or not all(isinstance(kind, str) and kind in known for kind in types)
    ):
        raise UnsupportedModelError(
            f"config.json: mlp_layer_types must name dense or sparse for each of {len(otherwise)} layers"
        )
    return [known[kind] for kind in types]


def layers_of(
    config: Config, attentions: Sequence[Attention | LatentAttention], dense: Sequence[bool], mixture: Mixture
) -> tuple[Layer, ...]:
    """The layers of a model from their attentions and whether they are dense."""
    return tuple(
        Layer(attention, DenseMlp(config.integer("intermediate_size")) if is_dense else mixture)
        for attention, is_dense in zip(attentions, dense, strict=True)
    )
