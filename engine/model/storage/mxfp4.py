"""4-bit floats (e2m1) with a power of two for 32 columns, as gpt-oss has its experts.

`<name>_blocks` [stack, n, k / 32, 16] holds two codes a byte, even columns low; `<name>_scales` [stack, n, k / 32] the
exponents.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...checkpoint.index import TensorEntry
from ...experts.source import Bytes, TensorRange
from ...kernels.formats import MX4
from ..unclaimed import Unclaimed
from .base import Shape, Stored, by_row, expect

GROUP = 32


def marker(name: str) -> str:
    """The tensor that is there if a matrix is stored so."""
    return name + "_blocks"


def companions(name: str) -> list[str]:
    """Tensors beside it that no other layout has."""
    return [name + "_scales"]


def find(tensors: Unclaimed, name: str, shape: Shape) -> Stored | None:
    """Take such a matrix, if it is there."""
    blocks = tensors.take(marker(name))
    if blocks is None:
        return None
    scales = tensors.need(name + "_scales")
    *rows, k = shape
    expect(blocks, "U8", (*rows, k // GROUP, GROUP // 2))
    expect(scales, "U8", (*rows, k // GROUP))
    n = blocks.nbytes // (k // 2)
    return Mxfp4Rows(n, k, blocks, scales)


class Mxfp4Rows(Stored):
    """See the module."""

    def __init__(self, n: int, k: int, blocks: TensorEntry, scales: TensorEntry) -> None:
        super().__init__(MX4, n, k)
        self._blocks, self._scales = blocks, scales

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows' codes and exponents."""
        return tuple(
            (entry, entry.offset + first * size, count * size)
            for entry, size in ((self._blocks, self.k // 2), (self._scales, self.k // GROUP))
        )

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """A row's codes, then its exponents."""
        codes = self.k // 2
        out[..., :codes] = by_row(raw[0].reshape(count, -1), out)
        out[..., codes:] = by_row(raw[1].reshape(count, -1), out)
