"""Products of up to 16 row-major rows of float weights with a fixed number of positions.

A row and position own 16 accumulators (one vector of 16 float32); column k goes to accumulator k % 16 up to the last
multiple of 16, the lanes are added by halves, the last columns follow one by one. That order is the same for every
number of rows and positions, and on every processor with fused multiply-add.
"""

from __future__ import annotations

from .dot import SHORT
from .formats import F16, F32, ROWS, itemsize
from .ir import FLOAT, LONG, WORD, Emitter, Value, vector

LANES = 16
"""Accumulators of a row and position."""

AHEAD = 512
"""Bytes a row is asked for ahead of use; near its end, the row that follows it."""


class FloatTile:
    """Writes the product of rows at `w` with `positions` float32 rows, `together` weight rows at a time.

    `sums` in the methods is [position][row], flat.
    """

    def __init__(self, e: Emitter, fmt: int, together: int, w: Value, k: Value, x: list[Value]) -> None:
        self.e, self.fmt, self.together, self.w, self.k, self.x = e, fmt, together, w, k, x
        self.size = itemsize(fmt)
        self.stride = e.b.mul(k, e.long(self.size))

    def weight(self, address: Value, lanes: int) -> Value:
        """`lanes` weights as float32."""
        e = self.e
        if self.fmt == F32:
            return e.load(vector(FLOAT, lanes), address)
        bits = e.load(vector(SHORT, lanes), address)
        if self.fmt == F16:
            return e.half_to_float(bits)
        words = vector(WORD, lanes)
        return e.b.bitcast(e.b.shl(e.b.zext(bits, words), e.constant(words, 16)), vector(FLOAT, lanes))

    def prefetch(self, rows: list[Value], column: Value) -> None:
        """Ask for what the rows need AHEAD bytes after `column`; they take the place of rows before them."""
        e = self.e
        ahead = e.offset(e.long(AHEAD), column, self.size)
        inside = e.b.icmp_signed("<", ahead, self.stride)
        jump = e.b.select(inside, e.long(0), e.b.mul(self.stride, e.long(self.together - 1)))
        ahead = e.b.add(ahead, jump)
        for row in rows:
            e.prefetch(e.offset(row, ahead))

    def columns(self, rows: list[Value], column: Value, sums: list[Value], lanes: int) -> list[Value]:
        """Add `lanes` columns from `column` on."""
        e = self.e
        weights = [self.weight(e.offset(row, column, self.size), lanes) for row in rows]
        result = []
        for j, address in enumerate(self.x):
            value = e.load(vector(FLOAT, lanes), e.offset(address, column, 4))
            for i, weight in enumerate(weights):
                result.append(e.fma(weight, value, sums[j * self.together + i]))
        return result

    def dot(self, rows: list[Value]) -> list[Value]:
        """The products of these rows with every position."""
        e = self.e

        def sixteen(column: Value, sums: list[Value]) -> list[Value]:
            self.prefetch(rows, column)
            return self.columns(rows, column, sums, LANES)

        def one(column: Value, sums: list[Value]) -> list[Value]:
            return self.columns(rows, column, sums, 1)

        whole = e.b.and_(self.k, e.long(-LANES))
        zeros = [e.constant(vector(FLOAT, LANES), 0.0)] * (self.together * len(self.x))
        sums = e.loop(e.long(0), whole, LANES, zeros, sixteen)
        return e.loop(whole, self.k, 1, [e.sum_lanes(lanes) for lanes in sums], one)


def float_tile(
    e: Emitter, fmt: int, together: int, positions: int, w: Value, rows: Value, k: Value, xs: Value, out: Value
) -> None:
    """out[j * 16 + r] = sum_k W[r, k] * x_j[k] for r < rows; other entries of `out` are left alone.

    w: address of row 0. xs: address of int64[positions], the addresses of float32[k].
    """
    x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]
    tile = FloatTile(e, fmt, together, w, k, x)
    last = e.b.sub(rows, e.long(1))

    def some_rows(first: Value, _: list[Value]) -> list[Value]:
        # Past the last row the last row is computed again: nothing is read or written outside.
        index = [e.minimum(e.offset(first, i), last) for i in range(together)]
        sums = tile.dot([e.b.add(w, e.b.mul(i, tile.stride)) for i in index])
        for j in range(positions):
            for i in range(together):
                e.store(sums[j * together + i], e.offset(out, e.offset(index[i], ROWS * j), 4))
        return []

    e.loop(e.long(0), rows, together, [], some_rows)
