"""GPTQ's and AWQ's integers: columns of the matrix are rows of the file, eight 4-bit integers a word.

Both keep `<stem>.qweight`, `<stem>.qzeros` [groups, n / 8] and `<stem>.scales` [groups, n].
GPTQ: qweight [k / 8, n], a word holds eight columns of one row, lowest first; words of qzeros hold eight rows. In its
first version zero points are stored less one. `<stem>.g_idx` names the group of each column; only columns in order are
read, since others would need their activations sorted.
AWQ: qweight [k, n / 8]; a word holds eight rows in the order 0 2 4 6 1 3 5 7.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...checkpoint.index import TensorEntry
from ...errors import CheckpointError
from ...experts.source import Bytes, TensorRange
from ..unclaimed import Unclaimed
from .base import Shape, expect, expect_scales, floats, whole
from .int4 import Int4Rows, int4_format

_WORD = 8
"""Integers in a word."""


def marker(name: str) -> str:
    """The tensor that is there if a matrix is stored so."""
    return name.removesuffix(".weight") + ".qweight"


def companions(name: str) -> list[str]:
    """Tensors beside it that no other layout has."""
    return [name.removesuffix(".weight") + suffix for suffix in (".qzeros", ".scales")]


def find(tensors: Unclaimed, name: str, shape: Shape) -> Int4Rows | None:
    """Take such a matrix, if it is there."""
    stem = name.removesuffix(".weight")
    entry = tensors.take(marker(name))
    if entry is None:
        return None
    if len(shape) != 2:
        raise CheckpointError(f"{entry.file.name}: tensor {entry.name}: stacked experts are not supported in int4")
    n, k = shape
    if n % _WORD or k % _WORD:
        raise CheckpointError(f"{entry.file.name}: tensor {entry.name}: [{n}, {k}] does not fill words of eight")
    quantisation = tensors.quantisation(entry, "gptq", "awq")
    group = quantisation.group or k
    qzeros, scales = tensors.need(stem + ".qzeros"), tensors.need(stem + ".scales")
    groups = -(-k // group)
    expect(qzeros, "I32", (groups, n // _WORD))
    expect_scales(scales, (groups, n))
    if quantisation.method == "awq":
        expect(entry, "I32", (k, n // _WORD))
        return AwqRows(n, k, group, (entry, qzeros, scales))
    expect(entry, "I32", (k // _WORD, n))
    order = tensors.take(stem + ".g_idx")
    if order is not None:
        expect(order, "I32", (k,))
    entries = (entry, qzeros, scales, order) if order is not None else (entry, qzeros, scales)
    return GptqRows(n, k, group, entries, quantisation.zero_offset)


class ColumnMajor(Int4Rows):
    """What both have in common: the words of all rows are read whatever rows are wanted."""

    def __init__(self, n: int, k: int, group: int, entries: tuple[TensorEntry, ...]) -> None:
        wide = group if group < k else -(-k // 128) * 128
        super().__init__(int4_format(entries[0].name, wide), n, k, group)
        self.entries = entries

    @property
    def sliced(self) -> bool:
        """All or nothing."""
        return False

    def ranges(self, first: int, count: int) -> tuple[TensorRange, ...]:
        """Whole tensors."""
        return tuple(whole(entry) for entry in self.entries)

    def scales(self, raw: Sequence[Bytes], first: int, count: int) -> npt.NDArray[np.float32]:
        """float32 [count, groups]."""
        values = floats(raw[2], self.entries[2].dtype).reshape(self.groups, self.n)
        return np.ascontiguousarray(values[:, first : first + count].T)


def _integers(raw: Bytes, rows: int, order: Sequence[int]) -> Bytes:
    """Words [rows, n / 8] -> integers [rows, n]; a word holds integer `order[i]` of its eight at place i."""
    words = raw.view(np.uint32).reshape(rows, -1)
    out = np.empty((*words.shape, _WORD), np.uint8)
    for place, number in enumerate(order):
        out[..., number] = words >> np.uint32(4 * place) & np.uint32(15)
    return out.reshape(rows, -1)


class GptqRows(ColumnMajor):
    """See the module."""

    def __init__(self, n: int, k: int, group: int, entries: tuple[TensorEntry, ...], zero_offset: int) -> None:
        super().__init__(n, k, group, entries)
        self._zero_offset = np.uint8(zero_offset)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Turn the words; CheckpointError when the columns are not in order."""
        if len(raw) > 3 and (raw[3].view(np.int32) != np.arange(self.k) // self.group).any():
            entry = self.entries[3]
            raise CheckpointError(
                f"{entry.file.name}: tensor {entry.name}: columns are sorted by activation (desc_act), which is not "
                "supported; use a release without it"
            )
        words = raw[0].view(np.uint32).reshape(-1, self.n)[:, first : first + count]
        codes = np.ascontiguousarray(words.T).view(np.uint8)
        zeros = _integers(raw[1], self.groups, range(_WORD))[:, first : first + count].T
        self.fill(out, codes, self.scales(raw, first, count), zeros + self._zero_offset & np.uint8(15))


class AwqRows(ColumnMajor):
    """See the module."""

    _ORDER = (0, 2, 4, 6, 1, 3, 5, 7)

    def arrange(self, raw: Sequence[Bytes], first: int, count: int, out: Bytes) -> None:
        """Pair the halves of neighbouring columns, then turn bytes."""
        pairs = raw[0].reshape(self.k // 2, 2, self.n // _WORD, 4)
        even, odd = pairs[:, 0], pairs[:, 1]
        codes = np.empty((self.n // _WORD, _WORD, self.k // 2), np.uint8)
        # Byte b of a word holds rows ORDER[2 b] (low half) and ORDER[2 b + 1] of its eight.
        low, high = even & 15 | odd << 4, even >> 4 | odd & 240
        for byte in range(4):
            codes[:, self._ORDER[2 * byte]] = low[..., byte].T
            codes[:, self._ORDER[2 * byte + 1]] = high[..., byte].T
        wanted = codes.reshape(self.n, -1)[first : first + count]
        zeros = _integers(raw[1], self.groups, self._ORDER)[:, first : first + count].T
        self.fill(out, wanted, self.scales(raw, first, count), np.ascontiguousarray(zeros))
