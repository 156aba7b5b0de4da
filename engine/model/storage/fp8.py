"""8-bit floats (e4m3) with scales of 128 x 128 blocks, of rows, or of the whole matrix: DeepSeek's and its followers'.

`<name>` holds the codes, `<name>_scale_inv` (blocks) or `<name>_scale` what they are multiplied by. Blocks at the right
and at the bottom may be cut; a row's scales are repeated into its record, so that the kernels need nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...checkpoint.index import TensorEntry
from ...errors import CheckpointError
from ...experts.source import Bytes, TensorRange
from ...kernels.formats import F8, F32, row_bytes
from ...kernels.rows import Floats
from ..unclaimed import Unclaimed
from .base import Shape, Stored, by_row, expect, expect_scales, floats, whole

BLOCK = 128
SUFFIXES = ("_scale_inv", "_scale")


def find(tensors: Unclaimed, name: str, shape: Shape) -> Stored | None:
    """Take a matrix of 8-bit floats and its scales, if it is there."""
    if tensors.dtype(name) not in ("F8_E4M3", "F8_E5M2"):
        return None
    entry = tensors.need(name)
    if len(shape) != 2 or entry.dtype != "F8_E4M3":
        raise CheckpointError(
            f"{entry.file.name}: tensor {name} is {entry.dtype} {list(entry.shape)}; of 8-bit floats only matrices of "
            "F8_E4M3 are supported"
        )
    expect(entry, "F8_E4M3", shape)
    suffix = next((suffix for suffix in SUFFIXES if tensors.has(name + suffix)), SUFFIXES[0])
    tensors.take(name.removesuffix(".weight") + ".input_scale")  # of activations, which stay float32 here
    return Fp8Rows(shape[0], shape[1], entry, tensors.need(name + suffix))


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


class Fp8Rows(Stored):
    """See the module."""

    def __init__(self, n: int, k: int, codes: TensorEntry, scales: TensorEntry) -> None:
        super().__init__(F8, n, k)
        self._codes, self._scales = codes, scales
        self._units = _blocks(k)
        grid = (_blocks(n), self._units)
        expect_scales(scales, grid, (n, 1), (n,), (1,), ())
        # A matrix of a single block: all kinds of scales mean the same.
        self._grid = grid if scales.shape == grid else (n, 1) if scales.shape[:1] == (n,) else (1, 1)
        self._rows_a_scale = BLOCK if self._grid == grid else 1 if self._grid == (n, 1) else n

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows' codes, and all scales."""
        return (self._codes, self._codes.offset + first * self.k, count * self.k), whole(self._scales)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Codes, filled up to whole blocks, and the scales of the blocks that a row runs through."""
        end = self._units * BLOCK
        out[..., : self.k] = by_row(raw[0].reshape(count, self.k), out)
        out[..., self.k : end] = 0
        scales = self._grid_of(raw)[np.arange(first, first + count) // self._rows_a_scale]
        out[..., end:] = by_row(np.broadcast_to(scales, (count, self._units)), out)

    def _grid_of(self, raw: Sequence[Bytes]) -> Floats:
        return floats(raw[1], self._scales.dtype).reshape(self._grid)

    def turned_format(self, step: int) -> int:
        """8-bit floats again, if every column of scales of the result comes from one row of scales."""
        return F8 if self._rows_a_scale >= BLOCK and step % BLOCK == 0 else F32

    def turned(self, raw: Sequence[Bytes], step: int, keep: int) -> Bytes:
        """Blocks of 128 x 128 turn with their codes."""
        if self.turned_format(step) != F8:
            return super().turned(raw, step, keep)
        parts, units = self.n // step, _blocks(keep)
        out = np.zeros((parts, self.k, row_bytes(F8, keep)), np.uint8)
        out[..., :keep] = raw[0].reshape(parts, step, self.k)[:, :keep].swapaxes(1, 2)
        first_rows = np.arange(parts)[:, None] * step + np.arange(units) * BLOCK
        columns = np.arange(self.k) // BLOCK if self._grid[1] > 1 else np.zeros(self.k, np.intp)
        scales = self._grid_of(raw)[first_rows // self._rows_a_scale][..., columns]  # [parts, units, k]
        out[..., units * BLOCK :] = np.ascontiguousarray(scales.swapaxes(1, 2)).view(np.uint8)
        return out.reshape(parts * self.k, -1)
