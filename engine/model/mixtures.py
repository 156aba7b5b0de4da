"""The record of a mixture: where all that its operations touch lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..board import Board
from ..experts.placement import Placement
from ..experts.source import ExpertSource
from ..kernels import records as r
from ..kernels.formats import TAKES_FLOATS, takes
from ..kernels.inputs import input_bytes
from ..options import Lossy
from .spec import Activation
from .writer import Writer

_SCORES = {"softmax": r.SOFTMAX, "sigmoid": r.SIGMOID, "chosen": r.CHOSEN, "sparsemixer": r.SPARSEMIXER}
ACTIVATIONS: dict[Activation, int] = {"silu": r.SILU, "gelu": r.GELU, "clamped": r.CLAMPED}
"""The kernels' codes."""


@dataclass(frozen=True, slots=True)
class Mixtures:
    """What the mixtures of a program share."""

    experts: ExpertSource
    placement: Placement
    board: Board
    lossy: Lossy


def mixture_record(writer: Writer, parts: Mixtures, layer: int) -> dict[str, Any]:
    """What a record says of a layer's mixture that computes from the writer's source."""
    spec, at, source, lossy = writer.spec, writer.space.address, parts.experts, parts.lossy
    placement, board, recent = parts.placement, parts.board, parts.placement.recent
    mixture = spec.mixture(layer)
    router = mixture.router
    (gate, up, down), (gate_step, up_step, down_step) = source.formats[layer], source.steps[layer]
    place, pairs = spec.moe_layers.index(layer), writer.space.rows * spec.top_k
    gate_x, up_x = (writer.taken(fmt, writer.source, spec.hidden) for fmt in (gate, up))
    recent.widths[layer] = min(router.top_k, lossy.top_k or router.top_k)
    return {
        "layer": layer, "experts": mixture.experts, "top_k": min(router.top_k, lossy.top_k or router.top_k),
        "logits": at["router"], "logit_bias": writer.weights.vector("router_logit_bias", layer),
        "bias": writer.weights.vector("router_bias", layer),
        "scores": _SCORES[router.scores], "jitter": router.jitter,
        "groups": router.groups, "top_groups": router.top_groups, "group_best": router.group_best,
        "renormalise": int(router.renormalise), "renorm_eps": router.renorm_eps, "scaling": router.scaling,
        "expert_scale": writer.weights.vector("expert_scale", layer),
        "top_p": lossy.top_p or 1.0,
        "ids": at["route_ids"] + place * pairs * 4, "weights": at["route_weights"] + place * pairs * 4,
        "kept": at["route_kept"] + place * writer.space.rows * 4,
        "heat": board.heat[layer].ctypes.data, "last_use": board.last_use[layer].ctypes.data,
        "tier": board.tier[layer].ctypes.data, "cells": board.by_layer[layer].ctypes.data,
        "recent": recent.ids[layer].ctypes.data, "recent_kept": recent.kept[layer].ctypes.data,
        "recent_clock": recent.clock[layer].ctypes.data, "recent_count": recent.count[layer:].ctypes.data,
        "recent_room": recent.kept.shape[1],
        "log": placement.log.ids[layer].ctypes.data, "log_kept": placement.log.kept[layer].ctypes.data,
        "logged": placement.log.count[layer:].ctypes.data, "log_room": placement.log.room,
        "slot_of": placement.slot_of[layer].ctypes.data, "parts": source.parts[layer].ctypes.data,
        "arena": placement.arena.address, "slot_bytes": placement.slot_bytes,
        "gate_fmt": gate, "up_fmt": up, "down_fmt": down, "hidden": spec.hidden, "width": mixture.width,
        "gate_step": gate_step, "up_step": up_step, "down_step": down_step,
        "x": gate_x.address, "x_stride": gate_x.stride, "up_x": up_x.address, "up_x_stride": up_x.stride,
        "h": at["h"], "hq": at["hq"] if takes(down) != TAKES_FLOATS else 0,
        "hq_stride": input_bytes(down, mixture.width), "y": at["y"],
        "activation": ACTIVATIONS[mixture.activation], "weigh_inputs": int(router.weigh_inputs),
        "gate_up_bias": writer.weights.vector("expert_gate_up_bias", layer),
        "down_bias": writer.weights.vector("expert_down_bias", layer),
        "output": writer.target.address, "add": int(writer.mode == r.ADD),
        "factor": spec.residual_scale if writer.mode == r.ADD else 1.0,
        "output_bias": writer.weights.vector("mixture_bias", layer),
        "shared": at["shared"] if mixture.shared_width and not mixture.apart else 0,
        "shared_gate": at["shared_gate"] if mixture.shared_gated else 0,
    }  # fmt: skip
