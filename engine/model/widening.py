"""A model's tensors as float32, a few rows at a time, however they are stored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..experts.source import Bytes, ExpertSource, Key
from ..kernels.formats import ROWS, block_bytes, is_packed, row_bytes
from ..kernels.packing import unpack
from ..kernels.rows import unpack_rows
from .items import Packed, Read
from .spec import ModelSpec
from .storage import Stored

Floats = npt.NDArray[np.float32]

_PIECE = 1 << 20
"""Values made at a time, about."""


def steps(n: int, k: int, piece: int = _PIECE) -> Iterator[tuple[int, int]]:
    """(first row, rows) of pieces that together are n rows of k columns; all but the last are whole blocks."""
    step = max(ROWS, piece // k // ROWS * ROWS)
    for first in range(0, n, step):
        yield first, min(step, n - first)


def dense_steps(stored: Stored | Packed, piece: int = _PIECE) -> Iterator[tuple[int, int]]:
    """The pieces that a dense matrix can be read in."""
    if isinstance(stored, Packed):
        n, k = stored.shape
        return steps(n, k, piece)
    return steps(stored.n, stored.k, piece) if stored.sliced else iter([(0, stored.n)])


def dense_rows(stored: Stored | Packed, read: Read, first: int, count: int) -> Floats:
    """Rows of a dense matrix, float32 [count, k]; `first` begins one of `dense_steps`. Raises ReadError."""
    if isinstance(stored, Packed):
        _, k = stored.shape
        size = block_bytes(stored.fmt, k)
        raw = read((stored.entry, stored.entry.offset + first // ROWS * size, -(-count // ROWS) * size), None)
        return unpack(stored.fmt, raw, count, k)
    return stored.unpack([read(part, None) for part in stored.ranges(first, count)], first, count)


def part_shape(spec: ModelSpec, layer: int, part: int) -> tuple[int, int]:
    """The shape of an expert's gate (0), up (1) or down (2)."""
    width, hidden = spec.mixture(layer).width, spec.hidden
    return (hidden, width) if part == 2 else (width, hidden)


def expert_rows(
    source: ExpertSource, key: Key, part: int, shape: tuple[int, int], slot: Bytes, first: int, count: int
) -> Floats:
    """Rows of one part of the expert in a slot, float32 [count, k]; `first` begins one of `steps`."""
    layer, _ = key
    _, k = shape
    fmt, step, start = source.formats[layer][part], source.steps[layer][part], int(source.parts[key][part])
    if not is_packed(fmt):
        size = row_bytes(fmt, k)
        at = start + first * size
        return np.array(unpack_rows(fmt, slot[at : at + count * size].reshape(count, size), k))
    size, at = block_bytes(fmt, k), start + first // ROWS * step
    starts = range(at, at + -(-count // ROWS) * step, step)
    return unpack(fmt, np.stack([slot[here : here + size] for here in starts]), count, k)
