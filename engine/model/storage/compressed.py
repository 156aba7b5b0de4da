"""compressed-tensors' `pack-quantized` integers: Kimi-K2-Thinking's experts, Red Hat's w4a16 releases.

`<stem>.weight_packed` [n, k / 8] holds eight 4-bit integers + 8 a word, lowest first, `<stem>.weight_scale`
[n, groups] their scales, `<stem>.weight_shape` the shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...checkpoint.index import TensorEntry
from ...errors import CheckpointError
from ...experts.source import Bytes, TensorRange
from ...kernels.formats import I4S
from ..unclaimed import Unclaimed
from .base import Shape, by_row, expect, expect_scales, floats
from .int4 import Int4Rows, int4_format


def marker(name: str) -> str:
    """The tensor that is there if a matrix is stored so."""
    return name.removesuffix(".weight") + ".weight_packed"


def companions(name: str) -> list[str]:
    """Tensors beside it that no other layout has."""
    return [name.removesuffix(".weight") + ".weight_shape"]


def find(tensors: Unclaimed, name: str, shape: Shape) -> Int4Rows | None:
    """Take such a matrix, if it is there."""
    packed = tensors.take(marker(name))
    if packed is None:
        return None
    stem = name.removesuffix(".weight")
    scales, dimensions = tensors.need(stem + ".weight_scale"), tensors.need(stem + ".weight_shape")
    if len(shape) != 2:
        raise CheckpointError(f"{packed.file.name}: tensor {packed.name}: stacked experts are not supported in int4")
    n, k = shape
    expect(packed, "I32", (n, -(-k // 8)))
    expect(dimensions, dimensions.dtype, (2,))
    group = tensors.quantisation(packed, "compressed-tensors").group or k
    expect_scales(scales, (n, -(-k // group)))
    return PackedRows(n, k, group, packed, scales)


class PackedRows(Int4Rows):
    """See the module."""

    def __init__(self, n: int, k: int, group: int, packed: TensorEntry, scales: TensorEntry) -> None:
        wide = group if group < k else -(-k // 128) * 128
        super().__init__(int4_format(packed.name, wide, scales.dtype == "BF16"), n, k, group)
        self._packed, self._scales = packed, scales

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """The rows' words and scales."""
        return tuple(
            (entry, entry.offset + first * (entry.nbytes // self.n), count * (entry.nbytes // self.n))
            for entry in (self._packed, self._scales)
        )

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """The bytes of little-endian words are in order already."""
        codes = raw[0].reshape(count, -1)
        if self.fmt != I4S:
            self.fill(out, codes, floats(raw[1], self._scales.dtype).reshape(count, self.groups))
            return
        size, end = codes.shape[1], self.row_bytes - 2 * self.groups
        out[..., :size] = by_row(codes, out)
        out[..., size:end] = 0
        out[..., end:] = by_row(raw[1].reshape(count, -1), out)
