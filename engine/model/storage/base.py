"""Matrices as checkpoints hold them: which bytes of which tensors, and how these become rows that the kernels read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...checkpoint.index import TensorEntry
from ...errors import CheckpointError
from ...experts.source import Bytes, TensorRange
from ...kernels.formats import BF16, F16, F32, row_bytes
from ...kernels.rows import Floats, float_of_bf16, power_of_two, unpack_rows

FLOAT_FORMATS = {"F32": F32, "F16": F16, "BF16": BF16}
"""Kernels' format of a float tensor by its dtype."""

Shape = tuple[int, ...]
"""[n, k], or [stack, n, k] for matrices one below the other in one tensor."""


class Stored(ABC):
    """A matrix [n, k] of a checkpoint. `fmt` is the row-major format that its rows are brought into, without loss."""

    def __init__(self, fmt: int, n: int, k: int) -> None:
        self.fmt, self.n, self.k = fmt, n, k
        self.row_bytes = row_bytes(fmt, k)

    @abstractmethod
    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The bytes that rows first..first+count-1 are made of, possibly with others around them."""

    @abstractmethod
    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Make the rows of what was read; `out` is uint8 [..., row_bytes] with `count` rows, however arranged."""

    @property
    def direct(self) -> bool:
        """Whether there is one range, and it is the rows."""
        return False

    @property
    def sliced(self) -> bool:
        """Whether some of the rows can be had without reading all."""
        return True

    def rows(self, raw: Sequence[Bytes], first: int, count: int) -> Bytes:
        """The rows as an array of their own, uint8 [count, row_bytes]."""
        out = np.empty((count, self.row_bytes), np.uint8)
        self.arrange(raw, first, count, out)
        return out

    def unpack(self, raw: Sequence[Bytes], first: int, count: int) -> Floats:
        """What the rows stand for, float32 [count, k]."""
        return unpack_rows(self.fmt, self.rows(raw, first, count), self.k)

    def turned_format(self, step: int) -> int:
        """The format of what `turned` makes."""
        return F32

    def turned(self, raw: Sequence[Bytes], step: int, keep: int) -> Bytes:
        """Of every `step` rows the first `keep`, transposed: rows [n / step * k, keep] of the format `turned_format`.

        raw: the ranges of all rows.
        """
        values = self.unpack(raw, 0, self.n).reshape(-1, step, self.k)[:, :keep]
        return np.ascontiguousarray(values.swapaxes(1, 2)).view(np.uint8).reshape(-1, 4 * keep)


class PlainRows(Stored):
    """Row after row in a format of the kernels': floats, and GGUF's blocks."""

    def __init__(self, fmt: int, n: int, k: int, entry: TensorEntry) -> None:
        super().__init__(fmt, n, k)
        self._entry = entry

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows."""
        return ((self._entry, self._entry.offset + first * self.row_bytes, count * self.row_bytes),)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Copy them."""
        out[...] = raw[0].reshape(out.shape)

    @property
    def direct(self) -> bool:
        """They are rows already."""
        return True

    def turned_format(self, step: int) -> int:
        """Floats stay what they are."""
        return self.fmt if self.fmt in FLOAT_FORMATS.values() else F32

    def turned(self, raw: Sequence[Bytes], step: int, keep: int) -> Bytes:
        """Element by element, without a look at the values where they are floats."""
        if self.turned_format(step) != self.fmt:
            return super().turned(raw, step, keep)
        items = raw[0].view(np.uint32 if self.fmt == F32 else np.uint16).reshape(-1, step, self.k)[:, :keep]
        return np.ascontiguousarray(items.swapaxes(1, 2)).view(np.uint8).reshape(-1, row_bytes(self.fmt, keep))


def expect(entry: TensorEntry, dtype: str, shape: Shape) -> None:
    """Refuse a tensor of another dtype or shape."""
    if entry.dtype != dtype or entry.shape != shape:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} is {entry.dtype} {list(entry.shape)}, the config calls for "
            f"{dtype} {list(shape)}"
        )


def whole(entry: TensorEntry) -> TensorRange:
    """All bytes of a tensor."""
    return entry, entry.offset, entry.nbytes


_SCALES = {"F32", "F16", "BF16", "F8_E8M0"}


def expect_scales(entry: TensorEntry, *shapes: Shape) -> None:
    """Refuse scales that are no floats, or of none of these shapes."""
    if entry.dtype not in _SCALES or entry.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} is {entry.dtype} {list(entry.shape)}, the weights it scales call "
            f"for floats {wanted}"
        )


def floats(raw: Bytes, dtype: str) -> Floats:
    """float32 from the bytes of scales of one of the dtypes `expect_scales` allows, flat."""
    if dtype == "F32":
        return raw.view(np.float32)
    if dtype == "F16":
        return raw.view(np.float16).astype(np.float32)
    return float_of_bf16(raw.view(np.uint16)) if dtype == "BF16" else power_of_two(raw)


def by_row(values: npt.NDArray[np.generic], out: Bytes) -> Bytes:
    """The bytes of [count, ...] as uint8 of the leading dimensions of `out`."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(*out.shape[:-1], -1)
