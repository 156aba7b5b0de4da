"""How a checkpoint keeps its routed experts: one tensor each, stacked per projection, or merged in a container."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..checkpoint.index import TensorEntry
from ..errors import CheckpointError
from ..experts.source import Bytes, ExpertSource, Formats, MergedFormats, SourceBuilder, TensorRange, merged_bytes
from ..kernels.formats import F32
from .spec import Mixture, Role
from .storage import Stored, colibri, expect, mxfp4, present
from .tensors import MERGED_LAYOUT, Tensors, float_format

_PARTS: tuple[Role, Role, Role] = ("expert_gate", "expert_up", "expert_down")

View = Callable[[Bytes], Bytes]
"""Rows of a slot, uint8 [count, row bytes] -> the same in the order in which they are stored."""


class Piece(NamedTuple):
    """Rows first..first+rows-1 of a stored matrix are gate (part 0), up (1), down (2), or gate and up (0, a view)."""

    stored: Stored
    first: int
    rows: int
    part: int
    view: View | None = None


def merged_name(expert_gate: str) -> str:
    """A container's name for a whole expert, from the family's name of its gate."""
    return expert_gate[: expert_gate.index("{E}") + 3] + ".merged_weight"


def find_experts(tensors: Tensors) -> ExpertSource:
    """Take every expert's tensors; all layers must agree in number and width."""
    spec = tensors.spec
    first, mixture = spec.moe_layers[0], spec.mixture(spec.moe_layers[0])
    for index in spec.moe_layers:
        other = spec.mixture(index)
        if (other.experts, other.width) != (mixture.experts, mixture.width):
            raise CheckpointError(f"layer {index} has experts of another number or width than layer {first}")
    builder = SourceBuilder(spec.hidden, mixture.width, len(spec.layers), mixture.experts)
    for layer in spec.moe_layers:
        _Layer(tensors, builder, layer, mixture).find()
    return builder.finish()


class _Layer:
    """Takes the experts of one layer."""

    def __init__(self, tensors: Tensors, builder: SourceBuilder, layer: int, mixture: Mixture) -> None:
        self._tensors, self._builder, self._layer, self._mixture = tensors, builder, layer, mixture
        self._experts, self._width, self._hidden = mixture.experts, mixture.width, tensors.spec.hidden
        self._formats: Formats | None = None  # of the first expert
        self._first: dict[int, str] = {}  # its tensors, by part
        self._merged = merged_name(tensors.name("expert_gate", layer))

    def find(self) -> None:
        """Take them by the layout that their names tell."""
        tensors, first = self._tensors, self._merged.replace("{E}", "0")
        packed = next((pair for pair, tag in MERGED_LAYOUT.items() if tensors.has(f"{first}.{tag}")), None)
        gate_up, gate = self._stacked_name("stacked_gate_up"), self._stacked_name("stacked_gate")
        if packed is not None:
            self._container(packed)
        elif tensors.has(first):
            self._colibri()
        elif tensors.has(mxfp4.marker(gate_up)):
            self._alternating(gate_up)
        elif tensors.has(gate_up) and self._mixture.layout != "rows":
            self._transposed(gate_up)
        elif tensors.has(gate_up) or tensors.has(gate):
            self._stacked(gate_up)
        else:
            self._refuse_half()
            self._single()

    def _refuse_half(self) -> None:
        """Stop if the other half of stacked experts is there: it is this one that is missing."""
        tensors, spec = self._tensors, self._tensors.spec
        if "stacked_down" not in spec.names or "stacked_gate_up" not in spec.names:
            return
        down, gate_up = self._stacked_name("stacked_down"), tensors.name("stacked_gate_up", self._layer)
        if tensors.has(mxfp4.marker(down)):
            tensors.need(mxfp4.marker(gate_up))
        elif tensors.has(down):
            tensors.need(gate_up + (".weight" if down.endswith(".weight") else ""))

    def _stacked_name(self, role: Role) -> str:
        """Stacked tensors come with and without `.weight`."""
        if role not in self._tensors.spec.names:
            return ""
        name = self._tensors.name(role, self._layer)
        return name if present(self._tensors, name) else name + ".weight"

    def _add(self, expert: int, pieces: Sequence[Piece]) -> None:
        """An expert of the three parts that the pieces cover, in their order."""
        builder, key = self._builder, (self._layer, expert)
        formats = _formats(pieces)
        held = [piece.stored.ranges(piece.first, piece.rows) for piece in pieces]
        if self._formats is None:
            self._formats = formats
            for piece, ranges in zip(pieces, held, strict=True):
                self._first[piece.part] = " with ".join(f"{entry.name} ({entry.dtype})" for entry, _, _ in ranges)
        for piece, ranges in zip(pieces, held, strict=True):
            if piece.stored.fmt != self._formats[piece.part]:
                told = " with ".join(f"{entry.name} ({entry.dtype})" for entry, _, _ in ranges)
                raise CheckpointError(
                    f"{ranges[0][0].file.name}: tensor {told} is not stored like {self._first[piece.part]}; all "
                    f"experts of layer {self._layer} must be, download them again"
                )
        if all(piece.stored.direct and piece.view is None for piece in pieces):
            builder.direct(key, formats, [ranges[0] for ranges in held])
            return
        starts = [builder.part_offsets(formats)[piece.part] for piece in pieces]

        def arrange(raw: Sequence[Bytes], slot: Bytes) -> None:
            at = 0
            for piece, start, ranges in zip(pieces, starts, held, strict=True):
                size = piece.stored.row_bytes
                out = slot[start : start + piece.rows * size].reshape(piece.rows, size)
                mine, at = raw[at : at + len(ranges)], at + len(ranges)
                piece.stored.arrange(mine, piece.first, piece.rows, piece.view(out) if piece.view else out)

        builder.arranged(key, formats, [part for ranges in held for part in ranges], arrange)

    def _single(self) -> None:
        """A tensor each for gate, up and down of every expert."""
        shapes = ((self._width, self._hidden), (self._width, self._hidden), (self._hidden, self._width))
        stems = [self._tensors.name(role, self._layer) for role in _PARTS]
        for expert in range(self._experts):
            pieces = []
            for part, (stem, shape) in enumerate(zip(stems, shapes, strict=True)):
                stored = self._tensors.stored(stem.replace("{E}", str(expert)), shape)
                pieces.append(Piece(stored, 0, stored.n, part))
            self._add(expert, pieces)

    def _stacked(self, gate_up: str) -> None:
        """Stacked in one tensor per projection [E, ...]; gate and up possibly in one, gate rows first."""
        tensors, experts, width, hidden = self._tensors, self._experts, self._width, self._hidden
        down = tensors.stored(self._stacked_name("stacked_down"), (experts, hidden, width))
        if tensors.has(gate_up):
            both = tensors.stored(gate_up, (experts, 2 * width, hidden))
            gate, up, step, shift = both, both, 2 * width, width
        else:
            names = [self._stacked_name(role) for role in ("stacked_gate", "stacked_up")]
            gate, up = (tensors.stored(name, (experts, width, hidden)) for name in names)
            step, shift = width, 0
        for expert in range(experts):
            self._add(
                expert,
                (
                    Piece(gate, expert * step, width, 0),
                    Piece(up, expert * step + shift, width, 1),
                    Piece(down, expert * hidden, hidden, 2),
                ),
            )

    def _alternating(self, gate_up: str) -> None:
        """Stacked, with rows of gate and up by turns."""
        width, hidden = self._width, self._hidden
        both = self._tensors.stored(gate_up, (self._experts, 2 * width, hidden))
        down = self._tensors.stored(self._tensors.name("stacked_down", self._layer), (self._experts, hidden, width))

        def by_turns(rows: Bytes) -> Bytes:
            return rows.reshape(2, width, -1).swapaxes(0, 1)

        for expert in range(self._experts):
            up_and_gate = Piece(both, expert * 2 * width, 2 * width, 0, by_turns)
            self._add(expert, (up_and_gate, Piece(down, expert * hidden, hidden, 2)))

    def _transposed(self, gate_up: str) -> None:
        """Floats stacked with inputs as rows, [E, hidden, 2 width] and [E, width, hidden]: turned while they load."""
        experts, width, hidden, tensors = self._experts, self._width, self._hidden, self._tensors
        entries = tensors.need(gate_up), tensors.need(self._stacked_name("stacked_down"))
        fmt = float_format(entries[0])
        expect(entries[0], entries[0].dtype, (experts, hidden, 2 * width))
        expect(entries[1], entries[0].dtype, (experts, width, hidden))
        item = np.dtype(np.uint32 if fmt == F32 else np.uint16)
        alternating = self._mixture.layout == "alternating"

        def arrange(raw: Sequence[Bytes], slot: Bytes) -> None:
            target = slot[: 3 * width * hidden * item.itemsize].view(item)
            both = raw[0].view(item).reshape(hidden, 2 * width)
            gate, up = (both[:, ::2], both[:, 1::2]) if alternating else (both[:, :width], both[:, width:])
            size = width * hidden
            target[:size].reshape(width, hidden)[:] = gate.T
            target[size : 2 * size].reshape(width, hidden)[:] = up.T
            target[2 * size :].reshape(hidden, width)[:] = raw[1].view(item).reshape(width, hidden).T

        for expert in range(experts):
            ranges = [_share(entry, expert, experts) for entry in entries]
            self._builder.arranged((self._layer, expert), (fmt, fmt, fmt), ranges, arrange)

    def _container(self, formats: MergedFormats) -> None:
        """Experts of a container of ours: one tensor each, in the kernels' layouts."""
        size = merged_bytes(formats, self._hidden, self._width)
        for expert in range(self._experts):
            entry = self._tensors.need(f"{self._merged}.{MERGED_LAYOUT[formats]}".replace("{E}", str(expert)))
            expect(entry, "U8", (size,))
            self._builder.merged((self._layer, expert), formats, entry)

    def _colibri(self) -> None:
        """Experts of one of colibrì's containers: one tensor each, and one of scales."""
        for expert in range(self._experts):
            name = self._merged.replace("{E}", str(expert))
            entry, scales = self._tensors.need(name), self._tensors.need(name.replace("merged_weight", "qs"))
            parts = colibri.merged_expert(entry, scales, self._hidden, self._width)
            self._add(expert, [Piece(stored, 0, stored.n, part) for part, stored in enumerate(parts)])


def _formats(pieces: Sequence[Piece]) -> Formats:
    """The formats of gate, up and down."""
    found = [piece.stored.fmt for piece in pieces]
    gate, up, down = found if len(found) == 3 else (found[0], *found)
    return gate, up, down


def _share(entry: TensorEntry, expert: int, experts: int) -> TensorRange:
    """An expert's bytes of a stacked tensor."""
    nbytes = entry.nbytes // experts
    return entry, entry.offset + expert * nbytes, nbytes
