"""Products of one packed block of 16 rows (I8R, I4G) with a fixed number of positions.

Every group of 32 columns gives an exact integer for each row and position; it becomes a float, is multiplied by its
scales and added with one fma. That order does not depend on the number of positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from .dot import SHORT, group_dots
from .formats import I4G, I4G_UNIT, I8R_SCALES, Q8_GROUP, Q8_SCALE, ROWS
from .ir import BYTE, FLOAT, LONG, WORD, Emitter, Value, vector

VECTOR = 64
"""Bytes of a stored vector."""


def packed_tile(e: Emitter, fmt: int, positions: int, w: Value, k: Value, xs: Value, out: Value) -> None:
    """out[j][r] = sum_k W[r, k] * x_j[k], float32 [positions][16].

    w: address of the block. k: columns. xs: address of int64[positions], the addresses of q8 records.
    """
    x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]
    parts = 512 // e.target.vector
    rows = ROWS // parts
    zero = e.constant(vector(FLOAT, rows), 0.0)
    write = _i4g_unit if fmt == I4G else _i8r_group
    columns = 64 if fmt == I4G else 32
    steps = e.b.sdiv(e.b.add(k, e.long(columns - 1)), e.long(columns))

    def body(index: Value, sums: list[Value]) -> Sequence[Value]:
        at = [e.offset(address, index, columns // 32 * Q8_GROUP) for address in x]
        return write(e, w, index, at, sums, rows)

    sums = e.loop(e.long(0), steps, 1, [zero] * (parts * positions), body)
    for j in range(positions):
        for part in range(parts):
            value = sums[part * positions + j]
            if fmt != I4G:
                value = e.b.fmul(value, e.load(value.type, e.offset(w, 4 * rows * part)))
            e.store(value, e.offset(out, 4 * (ROWS * j + rows * part)))


def _scales(e: Emitter, at: Sequence[Value], group: int, rows: int) -> list[Value]:
    """The activation scale of a group for each position, in every row."""
    return [e.splat(e.load(FLOAT, e.offset(a, group * Q8_GROUP + Q8_SCALE)), rows) for a in at]


def _i8r_group(
    e: Emitter, w: Value, index: Value, at: Sequence[Value], sums: list[Value], rows: int
) -> list[Value]:
    """Add one group of 32 columns of an I8R block; `sums` is [part][position]."""
    base = e.offset(e.offset(w, index, 8 * VECTOR), I8R_SCALES)
    result = []
    for part in range(ROWS // rows):

        def stored(step: int, part: int = part) -> Value:
            return e.load(vector(BYTE, 4 * rows), e.offset(base, step * VECTOR + part * 4 * rows))

        dots = group_dots(e, stored, 128, at, rows)
        for j, scale in enumerate(_scales(e, at, 0, rows)):
            total = e.b.sitofp(dots[j], vector(FLOAT, rows))
            result.append(e.fma(total, scale, sums[part * len(at) + j]))
    return result


def _i4g_unit(
    e: Emitter, w: Value, index: Value, at: Sequence[Value], sums: list[Value], rows: int
) -> list[Value]:
    """Add one unit of 64 columns of an I4G block; `sums` is [part][position]."""
    unit = e.offset(w, index, I4G_UNIT)
    sums = list(sums)
    for group in range(2):
        base = e.offset(unit, VECTOR + group * 4 * VECTOR)
        for part in range(ROWS // rows):
            nibbles = _Nibbles(e, e.offset(base, part * 4 * rows), rows)
            dots = group_dots(e, nibbles, 8, [e.offset(a, group * Q8_GROUP) for a in at], rows)
            halves = e.load(vector(SHORT, rows), e.offset(unit, 2 * (ROWS * group + rows * part)))
            weight_scale = e.half_to_float(halves)
            for j, scale in enumerate(_scales(e, at, group, rows)):
                total = e.b.fmul(e.b.sitofp(dots[j], vector(FLOAT, rows)), weight_scale)
                sums[part * len(at) + j] = e.fma(total, scale, sums[part * len(at) + j])
    return sums


class _Nibbles:
    """Weights of an int4 group by step: even steps are the low nibbles of a vector, odd steps the high ones."""

    def __init__(self, e: Emitter, base: Value, rows: int) -> None:
        self._e, self._base, self._rows = e, base, rows
        self._both: Value = None

    def __call__(self, step: int) -> Value:
        e, words = self._e, vector(WORD, self._rows)
        if step % 2 == 0:
            self._both = e.load(words, e.offset(self._base, step // 2 * VECTOR))
        value = self._both if step % 2 == 0 else e.b.lshr(self._both, e.constant(words, 4))
        return e.b.bitcast(e.b.and_(value, ir.Constant(words, [0x0F0F0F0F] * self._rows)), vector(BYTE, 4 * self._rows))
