"""The containers that colibrì's converters write: integers by row, scales beside them under `<name>.qs`.

GLM's keeps every tensor under its own name as U8. Which integers it holds follows from the byte counts:

    int8 by row         n * k bytes, n scales
    int4 by row         n * ceil(k / 2) bytes, n scales        stored + 8, even columns low
    int4 in groups      n * ceil(k / 2) bytes, n * groups scales
    int2 by row         n * ceil(k / 4) bytes, n scales        stored + 2, lowest bits first

Metadata may name them (`colibri.fmt`) and must then agree. The others merge an expert's gate, up and down into one
tensor `...experts.E.merged_weight` with the scales of all three under `...experts.E.qs`: OLMoE's as int8 (I8), Qwen's
as int8 or as int4 in two's complement (U8), by row or in groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...checkpoint.index import TensorEntry
from ...errors import CheckpointError
from ...experts.source import Bytes, TensorRange
from ...kernels.formats import I8S
from ..unclaimed import Unclaimed
from .base import Shape, Stored, by_row
from .int4 import Int4Rows, int4_format

_GROUPS = (64, 32, 128, 256, 512)
"""Columns of a group, likeliest first."""


class Place(NamedTuple):
    """Where a matrix begins in a tensor of integers, and its scales in a tensor of scales: byte offsets in files."""

    codes: TensorEntry
    codes_at: int
    scales: TensorEntry
    scales_at: int


def find(tensors: Unclaimed, name: str, shape: Shape) -> Stored | None:
    """Take a matrix of GLM's container, if it is there."""
    if tensors.dtype(name) not in ("U8", "I8") or not tensors.has(name + ".qs"):
        return None
    entry, scales = tensors.need(name), tensors.need(name + ".qs")
    if len(shape) != 2:
        raise _unknown(entry, scales)
    n, k = shape
    place, count = Place(entry, entry.offset, scales, scales.offset), _count(scales)
    found: tuple[str, Stored] | None = None
    if entry.nbytes == n * k and count == n:
        found = "int8-row", Int8Rows(n, k, place)
    elif entry.nbytes == n * -(-k // 2) and count == n:
        found = "int4-row", PackedInt4Rows(n, k, k, place, complement=False)
    elif entry.nbytes == n * -(-k // 2) and count % n == 0 and (group := _group(k, count // n)):
        found = "int4-grouped", PackedInt4Rows(n, k, group, place, complement=False)
    elif entry.nbytes == n * -(-k // 4) and count == n:
        found = "int2-row", Int2Rows(n, k, place)
    if found is None:
        raise _unknown(entry, scales)
    stamp = tensors.checkpoint.formats.get(name, found[0])
    if stamp != found[0]:
        raise CheckpointError(
            f"{entry.file.name}: tensor {name} is named {stamp[:40]!a} in the metadata, its {entry.nbytes:,} bytes and "
            f"{count:,} scales are {found[0]}"
        )
    return found[1]


def _count(scales: TensorEntry) -> int:
    """How many scales a tensor holds."""
    if scales.dtype != "F32":
        raise CheckpointError(f"{scales.file.name}: tensor {scales.name} is {scales.dtype}, scales are F32")
    return scales.nbytes // 4


def _group(k: int, groups: int) -> int:
    """Columns of a group if a row of k has so many groups; 0: none fits."""
    return next((group for group in _GROUPS if -(-k // group) == groups), 0)


def _unknown(entry: TensorEntry, scales: TensorEntry) -> CheckpointError:
    return CheckpointError(
        f"{entry.file.name}: tensor {entry.name} has {entry.nbytes:,} bytes and {scales.nbytes // 4:,} scales, which "
        "is no known layout of its shape"
    )


def merged_expert(entry: TensorEntry, scales: TensorEntry, hidden: int, width: int) -> tuple[Stored, Stored, Stored]:
    """Gate, up and down of an expert that lies in one tensor."""
    shapes = ((width, hidden), (width, hidden), (hidden, width))
    count, whole = _count(scales), 3 * width * hidden
    rows = 2 * width + hidden
    if entry.dtype in ("I8", "U8") and entry.nbytes == whole and count == rows:
        places = _places(entry, scales, [(n * k, n) for n, k in shapes])
        gate, up, down = (Int8Rows(n, k, place) for (n, k), place in zip(shapes, places, strict=True))
        return gate, up, down
    for by_group in (0, *_GROUPS):
        groups = [-(-k // by_group) if by_group else 1 for _, k in shapes]
        fits = count == sum(n * number for (n, _), number in zip(shapes, groups, strict=True))
        if entry.dtype == "U8" and 2 * entry.nbytes == whole and fits and hidden % 2 == width % 2 == 0:
            sizes = [(n * k // 2, n * number) for (n, k), number in zip(shapes, groups, strict=True)]
            places = _places(entry, scales, sizes)
            first, second, third = (
                PackedInt4Rows(n, k, by_group or k, place, complement=True)
                for (n, k), place in zip(shapes, places, strict=True)
            )
            return first, second, third
    raise _unknown(entry, scales)


def _places(entry: TensorEntry, scales: TensorEntry, sizes: Sequence[tuple[int, int]]) -> list[Place]:
    """Matrices one after another, of so many bytes and scales."""
    places, code, scale = [], entry.offset, scales.offset
    for nbytes, count in sizes:
        places.append(Place(entry, code, scales, scale))
        code, scale = code + nbytes, scale + 4 * count
    return places


def _ranges(place: Place, first: int, count: int, row: int, scales: int) -> tuple[TensorRange, ...]:
    """Some rows of `row` bytes and `scales` scales each."""
    return (
        (place.codes, place.codes_at + first * row, count * row),
        (place.scales, place.scales_at + first * scales * 4, count * scales * 4),
    )


class Int8Rows(Stored):
    """int8, one scale a row."""

    def __init__(self, n: int, k: int, place: Place) -> None:
        super().__init__(I8S, n, k)
        self._place = place

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows' integers and scales."""
        return _ranges(self._place, first, count, self.k, 1)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """A row's integers, filled up, and its scale."""
        out[..., : self.k] = by_row(raw[0].reshape(count, self.k), out)
        out[..., self.k : -4] = 0
        out[..., -4:] = by_row(raw[1].reshape(count, 4), out)


class PackedInt4Rows(Int4Rows):
    """Two integers a byte, even columns low: stored + 8, or in two's complement."""

    def __init__(self, n: int, k: int, group: int, place: Place, *, complement: bool) -> None:
        wide = group if group < k else -(-k // 128) * 128
        super().__init__(int4_format(place.codes.name, wide), n, k, group)
        self._place, self._complement = place, complement

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows' integers and scales."""
        return _ranges(self._place, first, count, -(-self.k // 2), self.groups)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Integers as they are, with the sign bit of two's complement turned, which adds 8."""
        codes = raw[0].reshape(count, -1)
        if self._complement:
            codes = codes ^ np.uint8(0x88)
        self.fill(out, codes, raw[1].view(np.float32).reshape(count, self.groups))


class Int2Rows(Int4Rows):
    """Four integers + 2 a byte, lowest bits first, one scale a row."""

    def __init__(self, n: int, k: int, place: Place) -> None:
        super().__init__(int4_format(place.codes.name, -(-k // 128) * 128), n, k, k)
        self._place = place

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows' integers and scales."""
        return _ranges(self._place, first, count, -(-self.k // 4), 1)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Twice the bits for each."""
        packed = raw[0].reshape(count, -1)
        pairs = np.stack((packed & 3 | (packed & 12) << 2, packed >> 4 & 3 | (packed >> 6) << 4), axis=2)
        codes = pairs.reshape(count, -1)[:, : -(-self.k // 2)]
        self.fill(out, codes, raw[1].view(np.float32).reshape(count, 1), zeros=2)
