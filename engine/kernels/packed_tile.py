"""Products of one packed block of 16 rows (I8R, I4G) with a fixed number of positions.

Every group of 32 columns gives an exact integer for each row and position; it becomes a float, is multiplied by its
scales and added with one fma. That order does not depend on the number of positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dot import SHORT, Group, Weights, group_dots
from .formats import I4G, I4G_UNIT, I8R_SCALES, Q8_GROUP, Q8_SCALE, ROWS
from .ir import BYTE, FLOAT, LONG, WORD, Emitter, Value, vector

VECTOR = 64
"""Bytes of a stored vector."""

AHEAD = 2048
"""Bytes the memory is asked for ahead of use by 512-bit kernels. Processors fetch a stream ahead by themselves, but
the more instructions a line costs, the fewer lines they keep in flight; narrower kernels gain nothing from asking."""


class PackedTile:
    """Writes the product of one block with `positions` activation records.

    The 16 rows are `parts` registers of `rows` 32-bit sums each; `sums` in the methods is [part][position], flat.
    """

    def __init__(self, e: Emitter, positions: int, w: Value, k: Value, xs: Value) -> None:
        self.e, self.w, self.k = e, w, k
        self.positions = positions
        self.parts = 512 // e.target.vector
        self.rows = ROWS // self.parts
        self.floats = vector(FLOAT, self.rows)
        self.x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]

    def zeros(self) -> list[Value]:
        """Sums to start from."""
        return [self.e.constant(self.floats, 0.0)] * (self.parts * self.positions)

    def accumulate(self, sums: list[Value], part: int, dots: list[Value], at: Sequence[Value], scale: Value) -> None:
        """Add a group's integers of one part: sums += dots * weight scale (if not None) * activation scale."""
        e = self.e
        for j, address in enumerate(at):
            value = e.b.sitofp(dots[j], self.floats)
            if scale is not None:
                value = e.b.fmul(value, scale)
            activation = e.splat(e.load(FLOAT, e.offset(address, Q8_SCALE)), self.rows)
            index = part * self.positions + j
            sums[index] = e.fma(value, activation, sums[index])

    def records(self, group: Value, later: int = 0) -> list[Value]:
        """Addresses of the q8 group `group` + `later` of each position."""
        return [self.e.offset(self.e.offset(x, group, Q8_GROUP), later * Q8_GROUP) for x in self.x]

    def prefetch(self, address: Value, size: int) -> None:
        """Ask for the lines that will be used AHEAD bytes after `address`."""
        if self.e.target.vector == 512:
            for line in range(0, size, VECTOR):
                self.e.prefetch(self.e.offset(address, AHEAD + line))

    def store(self, sums: list[Value], out: Value, scales: Value | None) -> None:
        """Write float32 [positions][16], times the row scales at `scales` if there are any."""
        e = self.e
        for j in range(self.positions):
            for part in range(self.parts):
                value = sums[part * self.positions + j]
                if scales is not None:
                    value = e.b.fmul(value, e.load(self.floats, e.offset(scales, 4 * self.rows * part)))
                e.store(value, e.offset(out, 4 * (ROWS * j + self.rows * part)))

    def i8r_groups(self, group: Value, sums: list[Value], count: int) -> list[Value]:
        """Add `count` groups of 32 columns of an I8R block, from `group` on."""
        e, size, width = self.e, 8 * VECTOR, 4 * self.rows
        sums = list(sums)
        base = e.offset(e.offset(self.w, group, size), I8R_SCALES)
        self.prefetch(base, count * size)
        at = [self.records(group, later) for later in range(count)]
        for part in range(self.parts):

            def weights(first: Value) -> Weights:
                return lambda step: e.load(vector(BYTE, width), e.offset(first, step * VECTOR))

            starts = [e.offset(base, later * size + part * width) for later in range(count)]
            groups: list[Group] = [(weights(start), x) for start, x in zip(starts, at, strict=True)]
            for dots, x in zip(group_dots(e, groups, 128, self.rows), at, strict=True):
                self.accumulate(sums, part, dots, x, None)
        return sums

    def i4g_unit(self, unit: Value, sums: list[Value]) -> list[Value]:
        """Add unit `unit` (64 columns) of an I4G block."""
        e, rows = self.e, self.rows
        sums = list(sums)
        base = e.offset(self.w, unit, I4G_UNIT)
        self.prefetch(base, I4G_UNIT)
        at = [self.records(e.b.shl(unit, e.long(1)), group) for group in range(2)]
        for part in range(self.parts):
            starts = [e.offset(base, VECTOR + group * 4 * VECTOR + part * 4 * rows) for group in range(2)]
            groups: list[Group] = [(_Nibbles(e, start, rows), x) for start, x in zip(starts, at, strict=True)]
            results = group_dots(e, groups, 8, rows)
            for group in range(2):
                halves = e.load(vector(SHORT, rows), e.offset(base, 2 * (ROWS * group + rows * part)))
                self.accumulate(sums, part, results[group], at[group], e.half_to_float(halves))
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
        return e.b.bitcast(e.b.and_(value, e.constant(words, 0x0F0F0F0F)), vector(BYTE, 4 * self._rows))


def packed_tile(e: Emitter, fmt: int, positions: int, w: Value, k: Value, xs: Value, out: Value) -> None:
    """out[j][r] = sum_k W[r, k] * x_j[k], float32 [positions][16].

    w: address of the block. k: columns. xs: address of int64[positions], the addresses of q8 records.
    """
    tile = PackedTile(e, positions, w, k, xs)
    zero, columns = e.long(0), 64 if fmt == I4G else 32
    steps = e.b.sdiv(e.b.add(k, e.long(columns - 1)), e.long(columns))
    if fmt == I4G:
        sums = e.loop(zero, steps, 1, tile.zeros(), tile.i4g_unit)
        tile.store(sums, out, None)
        return
    pairs = e.b.and_(steps, e.long(-2))
    sums = e.loop(zero, pairs, 2, tile.zeros(), lambda group, sums: tile.i8r_groups(group, sums, 2))
    sums = e.loop(pairs, steps, 1, sums, lambda group, sums: tile.i8r_groups(group, sums, 1))
    tile.store(sums, out, w)
