"""Dense tensors on their way into memory: what is read, what it becomes, how large that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ..checkpoint.files import ModelFiles
from ..checkpoint.index import TensorEntry
from ..experts.source import Bytes, TensorRange
from ..kernels.formats import F32, matrix_bytes
from .storage.base import Shape, Stored

Read = Callable[[TensorRange, memoryview | None], Bytes]
"""Reads bytes of a file, into memory that is given or new."""


def reading(files: ModelFiles) -> Read:
    """Read from these files, through the page cache."""

    def read(part: TensorRange, target: memoryview | None) -> Bytes:
        entry, offset, nbytes = part
        if target is None:
            target = memoryview(bytearray(nbytes))
        files[files.number(entry.file)].read_into(offset, target)
        return np.frombuffer(target, np.uint8)

    return read


_PIECE = 8 << 20
"""Bytes read at a time, so that progress is told and little is held twice."""


class Item(ABC):
    """A tensor that will lie in memory as `fmt`, of this shape."""

    fmt: int
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        *rows, k = self.shape
        return matrix_bytes(self.fmt, prod(rows), k)

    @abstractmethod
    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """Fill `target`; `told` hears how many of its bytes are done."""


class Matrix(Item):
    """Some rows of a stored matrix, in its own format."""

    def __init__(self, stored: Stored, first: int, count: int) -> None:
        self._stored, self._first = stored, first
        self.fmt, self.shape = stored.fmt, (count, stored.k)

    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """Piece after piece, each arranged at once where the file holds something else."""
        stored, size, (count, _) = self._stored, self._stored.row_bytes, self.shape
        step = max(1, _PIECE // size) if stored.sliced else count
        for row in range(0, count, step):
            rows = min(step, count - row)
            piece = target[row * size : (row + rows) * size]
            ranges = stored.ranges(self._first + row, rows)
            if stored.direct:
                read(ranges[0], piece)
            else:
                out = np.frombuffer(piece, np.uint8).reshape(rows, size)
                stored.arrange([read(part, None) for part in ranges], self._first + row, rows, out)
            told((row + rows) * size)


class Packed(Item):
    """A container's matrix, in a kernel's own layout."""

    def __init__(self, entry: TensorEntry, fmt: int, shape: Shape) -> None:
        self.entry, self.fmt, self.shape = entry, fmt, shape

    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """Piece after piece."""
        for start in range(0, len(target), _PIECE):
            piece = target[start : start + _PIECE]
            read((self.entry, self.entry.offset + start, len(piece)), piece)
            told(start + len(piece))


class Widened(Item):
    """Values as float32, with `shift` added: norms stored as w - 1 are kept as w."""

    fmt = F32

    def __init__(self, stored: Stored, shape: Shape, shift: float) -> None:
        self._stored, self.shape, self._shift = stored, shape, np.float32(shift)

    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """Dequantised."""
        values = unpacked(self._stored, read)
        np.frombuffer(target, np.float32)[:] = values.reshape(-1) + self._shift
        told(len(target))


class Alternating(Item):
    """Two matrices of one shape, their columns by turns, as float32."""

    fmt = F32

    def __init__(self, first: Stored, second: Stored) -> None:
        self._both, self.shape = (first, second), (first.n, 2 * first.k)

    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """Both dequantised."""
        out = np.frombuffer(target, np.float32).reshape(self.shape)
        for place, stored in enumerate(self._both):
            out[:, place::2] = unpacked(stored, read)
        told(len(target))


class KeyUp(Item):
    """What carries queries into the latent's space: of every head of kv_b its key rows, transposed."""

    def __init__(self, stored: Stored, heads: int, key: int) -> None:
        self._stored, self._step, self._key = stored, stored.n // heads, key
        self.fmt = stored.turned_format(self._step)
        self.shape = (heads * stored.k, key)

    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """All of kv_b, turned."""
        rows = self._stored.turned(_all(self._stored, read), self._step, self._key)
        np.frombuffer(target, np.uint8)[:] = rows.reshape(-1)
        told(len(target))


class ValueUp(Item):
    """What carries gathered latents out of their space: of every head of kv_b its value rows, which are the last."""

    def __init__(self, stored: Stored, heads: int, value: int) -> None:
        self._stored, self._heads, self._value = stored, heads, value
        self.fmt, self.shape = stored.fmt, (heads * value, stored.k)

    def load(self, read: Read, target: memoryview, told: Callable[[int], None]) -> None:
        """All of kv_b, less the key rows."""
        stored = self._stored
        rows = stored.rows(_all(stored, read), 0, stored.n).reshape(self._heads, -1, stored.row_bytes)
        np.frombuffer(target, np.uint8)[:] = rows[:, rows.shape[1] - self._value :].reshape(-1)
        told(len(target))


def _all(stored: Stored, read: Read) -> Sequence[Bytes]:
    """The bytes of all rows."""
    return [read(part, None) for part in stored.ranges(0, stored.n)]


def unpacked(stored: Stored, read: Read) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """What a matrix stands for, float32 [n, k]; read piece after piece where that can be."""
    if not stored.sliced:
        return stored.unpack(_all(stored, read), 0, stored.n)
    values = np.empty((stored.n, stored.k), np.float32)
    step = max(1, _PIECE // stored.row_bytes)
    for row in range(0, stored.n, step):
        rows = min(step, stored.n - row)
        raw = [read(part, None) for part in stored.ranges(row, rows)]
        values[row : row + rows] = stored.unpack(raw, row, rows)
    return values
