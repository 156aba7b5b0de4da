"""4-bit integers with a scale, and possibly a zero point, for a group of columns: what the int4 layouts share.

In memory even columns lie in the low halves of bytes. Groups of 32 with a bfloat16 scale and zero point 8 are kept so;
anything else gets a float32 scale and a zero point for every 32 or 128 columns, repeated where the group is larger.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import CheckpointError
from ...experts.source import Bytes
from ...kernels.formats import I4S, I4Z32, I4Z128, unit_columns
from ...kernels.rows import Floats
from .base import Stored, by_row

MIDDLE = 8
"""The zero point of symmetric integers."""


def int4_format(name: str, group: int, symmetric_bf16: bool = False) -> int:
    """The format for groups of so many columns."""
    if group % 32:
        raise CheckpointError(f"tensor {name}: groups of {group} columns are not supported, only multiples of 32")
    if group == 32 and symmetric_bf16:
        return I4S
    return I4Z128 if group % 128 == 0 else I4Z32


class Int4Rows(Stored):
    """A matrix of 4-bit integers; `group` is a multiple of 32, or all columns."""

    def __init__(self, fmt: int, n: int, k: int, group: int) -> None:
        super().__init__(fmt, n, k)
        self.group, self.groups = group, -(-k // group)
        self._columns = unit_columns(fmt)
        self._units = -(-k // self._columns)

    def _repeated(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """[count, groups] -> [count, units]."""
        return np.repeat(values, -(-self.group // self._columns), axis=1)[:, : self._units]

    def fill(self, out: Bytes, codes: Bytes, scales: Floats, zeros: Bytes | int = MIDDLE) -> None:
        """Write rows: codes [count, bytes] (two a byte, even columns low), scales [count, groups], zeros alike."""
        size, end = codes.shape[1], self._units * self._columns // 2
        out[..., :size] = by_row(codes, out)
        out[..., size:end] = 0
        middle = end + self._units * 4
        out[..., end:middle] = by_row(self._repeated(scales), out)
        points = np.full(scales.shape, zeros, np.uint8) if isinstance(zeros, int) else zeros
        out[..., middle:] = by_row(self._repeated(points), out)
