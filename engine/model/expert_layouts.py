"""How a checkpoint keeps its routed experts: one tensor each, stacked per projection, or merged in a container."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..checkpoint.index import TensorEntry
from ..errors import CheckpointError
from ..experts.source import Bytes, ExpertSource, TensorRange, arranged_source, hub_source, merged_source
from ..kernels.formats import F32
from .spec import Mixture, Role
from .tensors import FLOAT_FORMATS, PACKED_SUFFIX, Tensors, expect

Parts = dict[tuple[int, int, int], tuple[TensorEntry, int]]
"""(layer, expert, part) -> the tensor that holds gate (0), up (1) or down (2), and the offset of its bytes."""

_PARTS: tuple[Role, Role, Role] = ("expert_gate", "expert_up", "expert_down")
_STACKED: tuple[Role, ...] = ("stacked_gate_up", "stacked_gate", "stacked_up", "stacked_down")


def merged_name(expert_gate: str) -> str:
    """A container's name for a whole expert, from the family's name of its gate."""
    return expert_gate[: expert_gate.index("{E}") + 3] + ".merged_weight"


def find_experts(tensors: Tensors) -> ExpertSource:
    """Take every expert's tensors; all layers must agree in number, width and dtype."""
    spec = tensors.spec
    first, mixture = spec.moe_layers[0], spec.mixture(spec.moe_layers[0])
    for index in spec.moe_layers:
        other = spec.mixture(index)
        if (other.experts, other.width) != (mixture.experts, mixture.width):
            raise CheckpointError(f"layer {index} has experts of another number or width than layer {first}")
    merged = _merged(tensors, mixture)
    if merged is not None:
        return merged
    stacked = any(tensors.has(_stacked_name(tensors, role, first)) for role in _STACKED if role in spec.names)
    if mixture.layout != "rows":
        return _transposed(tensors, mixture)
    parts = (_stacked if stacked else _per_expert)(tensors, mixture)
    return hub_source(
        parts, _expert_format(parts[first, 0, 0][0]), spec.hidden, mixture.width, len(spec.layers), mixture.experts
    )


def _merged(tensors: Tensors, mixture: Mixture) -> ExpertSource | None:
    """Experts of a container: one tensor each, in a kernel's layout."""
    spec = tensors.spec
    for fmt, suffix in PACKED_SUFFIX.items():
        stem = merged_name(spec.names["expert_gate"]) + suffix
        if not tensors.has(stem.replace("{L}", str(spec.moe_layers[0])).replace("{E}", "0")):
            continue
        entries = {
            (layer, expert): tensors.need(stem.replace("{L}", str(layer)).replace("{E}", str(expert)))
            for layer in spec.moe_layers
            for expert in range(mixture.experts)
        }
        return merged_source(entries, fmt, spec.hidden, mixture.width, len(spec.layers), mixture.experts)
    return None


def _per_expert(tensors: Tensors, mixture: Mixture) -> Parts:
    hidden, parts, dtype = tensors.spec.hidden, Parts(), ""
    shapes = ((mixture.width, hidden), (mixture.width, hidden), (hidden, mixture.width))
    for layer in tensors.spec.moe_layers:
        for part, (role, shape) in enumerate(zip(_PARTS, shapes, strict=True)):
            stem = tensors.name(role, layer)
            for expert in range(mixture.experts):
                entry = tensors.need(stem.replace("{E}", str(expert)))
                dtype = dtype or entry.dtype
                expect(entry, dtype, shape)
                parts[layer, expert, part] = (entry, entry.offset)
    return parts


def _stacked_name(tensors: Tensors, role: Role, layer: int) -> str:
    """Stacked tensors come with and without `.weight`."""
    name = tensors.name(role, layer)
    return name if tensors.has(name) else name + ".weight"


def _expert_format(entry: TensorEntry) -> int:
    fmt = FLOAT_FORMATS.get(entry.dtype)
    if fmt is None:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} has dtype {entry.dtype}, which experts cannot have"
        )
    return fmt


def _transposed(tensors: Tensors, mixture: Mixture) -> ExpertSource:
    """Experts stacked with inputs as rows, [E, hidden, 2 width] and [E, width, hidden]: turned while they load."""
    experts, width, hidden = mixture.experts, mixture.width, tensors.spec.hidden
    reads: dict[tuple[int, int], list[TensorRange]] = {}
    first: TensorEntry | None = None
    for layer in tensors.spec.moe_layers:
        gate_up = tensors.need(_stacked_name(tensors, "stacked_gate_up", layer))
        down = tensors.need(_stacked_name(tensors, "stacked_down", layer))
        first = first or gate_up
        expect(gate_up, first.dtype, (experts, hidden, 2 * width))
        expect(down, first.dtype, (experts, width, hidden))
        for expert in range(experts):
            reads[layer, expert] = [
                (entry, entry.offset + expert * (entry.nbytes // experts), entry.nbytes // experts)
                for entry in (gate_up, down)
            ]
    assert first is not None
    fmt = _expert_format(first)
    item = np.dtype(np.uint32 if fmt == F32 else np.uint16)
    alternating = mixture.layout == "alternating"

    def arrange(raw: Sequence[Bytes], slot: Bytes) -> None:
        target = slot[: 3 * width * hidden * item.itemsize].view(item)
        gate_up = raw[0].view(item).reshape(hidden, 2 * width)
        gate, up = (gate_up[:, ::2], gate_up[:, 1::2]) if alternating else (gate_up[:, :width], gate_up[:, width:])
        size = width * hidden
        target[:size].reshape(width, hidden)[:] = gate.T
        target[size : 2 * size].reshape(width, hidden)[:] = up.T
        target[2 * size :].reshape(hidden, width)[:] = raw[1].view(item).reshape(width, hidden).T

    return arranged_source(reads, arrange, fmt, hidden, width, len(tensors.spec.layers), experts)


def _stacked(tensors: Tensors, mixture: Mixture) -> Parts:
    """Experts stacked in one tensor per projection [E, ...]; gate and up possibly in one, gate rows first."""
    experts, width, hidden = mixture.experts, mixture.width, tensors.spec.hidden
    parts, dtype = Parts(), ""
    for layer in tensors.spec.moe_layers:
        plan: list[tuple[Role, tuple[int, ...], tuple[int, ...]]] = [("stacked_down", (experts, hidden, width), (2,))]
        if tensors.has(_stacked_name(tensors, "stacked_gate_up", layer)):
            plan.append(("stacked_gate_up", (experts, 2 * width, hidden), (0, 1)))
        else:
            plan.append(("stacked_gate", (experts, width, hidden), (0,)))
            plan.append(("stacked_up", (experts, width, hidden), (1,)))
        for role, shape, which in plan:
            entry = tensors.need(_stacked_name(tensors, role, layer))
            dtype = dtype or entry.dtype
            expect(entry, dtype, shape)
            share = entry.nbytes // (experts * len(which))
            for expert in range(experts):
                for place, part in enumerate(which):
                    parts[layer, expert, part] = (entry, entry.offset + (expert * len(which) + place) * share)
    return parts
