"""Products of up to 16 row-major rows of weights with a fixed number of positions of float32.

A row and position own 16 accumulators (one vector of 16 float32). A unit's parts of 16 columns (see `decoder`) are
added in their order, lane by lane; float rows thus put column k into accumulator k % 16. In the end the lanes are added
by halves. Columns that fill no unit follow: those of float rows one by one, after the lanes have been added; other
rows are filled up, and so are the activations, with zeros. That order is the same for every number of rows and
positions, and on every processor with fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence

from .decoder import LANES
from .decoders import DECODERS
from .formats import ROWS
from .hub_rows import FloatRows
from .ir import FLOAT, LONG, Emitter, Value, mask, vector

LINE = 64
"""Bytes that come together when a row is asked for."""


class RowTile:
    """Writes the product of rows at `w` with the float32 rows `x`, `together` weight rows at a time.

    `sums` in the methods is [position][row], flat.
    """

    def __init__(self, e: Emitter, fmt: int, together: int, w: Value, k: Value, x: Sequence[Value]) -> None:
        self.e, self.together, self.w, self.k, self.x = e, together, w, k, x
        self.rows = DECODERS[fmt](e, k)
        self.stride = self.rows.stride()

    def prefetch(self, rows: list[Value], column: Value) -> None:
        """Ask for as much of the rows that follow these as is used at `column`, in the order of addresses."""
        e = self.e
        following = e.offset(rows[0], self.stride, self.together)
        at = e.offset(following, self.rows.place(column), self.together)
        for line in range(0, self.rows.span * self.together, LINE):
            e.prefetch(e.offset(at, line))

    def unit(
        self, rows: list[Value], column: Value, sums: list[Value], x: Sequence[Value], start: Value
    ) -> list[Value]:
        """Add the unit that begins with `column`; its activations begin with entry `start` of the rows `x`."""
        e = self.e
        sums = list(sums)
        opened = [self.rows.open(row, column) for row in rows]
        for number, (first, step) in enumerate(self.rows.parts):
            weights = [weight(number) for weight in opened]
            for j, address in enumerate(x):
                value = self._activations(e.offset(address, start, 4), first, step)
                for i, weight in enumerate(weights):
                    index = j * self.together + i
                    sums[index] = e.fma(weight, value, sums[index])
        return sums

    def _activations(self, address: Value, first: int, step: int) -> Value:
        """Entries first, first + step, ... of the float32 at `address`, 16 of them; step 1 or 2."""
        e, kind = self.e, vector(FLOAT, LANES)
        if step == 1:
            return e.load(kind, e.offset(address, 4 * first))
        start = first - first % 2
        low, high = (e.load(kind, e.offset(address, 4 * (start + LANES * half))) for half in range(2))
        return e.b.shuffle_vector(low, high, mask(range(first % 2, 2 * LANES, 2)))

    def _last_columns(self, rows: list[Value], whole: Value, sums: list[Value]) -> list[Value]:
        """The lanes added, then the columns of float rows that fill no unit, one by one."""
        e, floats = self.e, self.rows
        assert isinstance(floats, FloatRows)

        def one(column: Value, totals: list[Value]) -> list[Value]:
            weights = [floats.weight(row, column) for row in rows]
            values = [e.load(FLOAT, e.offset(address, column, 4)) for address in self.x]
            pairs = [(weight, value) for value in values for weight in weights]
            return [e.fma(*pair, total) for pair, total in zip(pairs, totals, strict=True)]

        return e.loop(whole, self.k, 1, [e.sum_lanes(lanes) for lanes in sums], one)

    def _filled_up(self, whole: Value) -> list[Value]:
        """Addresses of the activations of the last, partly filled unit, with zeros behind them."""
        e = self.e
        kind = vector(FLOAT, self.rows.unit)
        copies = []
        for address in self.x:
            copy = e.room(self.rows.unit)
            e.store(e.constant(kind, 0.0), copy)
            copies.append(copy)

            def move(column: Value, _: list[Value], address: Value = address, copy: Value = copy) -> list[Value]:
                value = e.load(FLOAT, e.offset(address, column, 4))
                e.store(value, e.offset(copy, e.b.sub(column, whole), 4))
                return []

            e.loop(whole, self.k, 1, [], move)
        return copies

    def dot(self, rows: list[Value], whole: Value, rest: Sequence[Value]) -> list[Value]:
        """The products of these rows with every position. rest: activations from column `whole` on, filled up."""
        e, unit = self.e, self.rows.unit

        def body(column: Value, sums: list[Value]) -> list[Value]:
            self.prefetch(rows, column)
            return self.unit(rows, column, sums, self.x, column)

        zeros = [e.constant(vector(FLOAT, LANES), 0.0)] * (self.together * len(self.x))
        sums = e.loop(e.long(0), whole, unit, zeros, body)
        if isinstance(self.rows, FloatRows):
            return self._last_columns(rows, whole, sums)
        if self.rows.cut:
            sums = e.loop(
                whole, self.k, unit, sums, lambda column, sums: self.unit(rows, column, sums, rest, e.long(0))
            )
        return [e.sum_lanes(lanes) for lanes in sums]

    def product(self, count: Value, out: Value) -> None:
        """out[j * 16 + r] = W[r] . x_j for r < count."""
        e = self.e
        unit = e.long(self.rows.unit)
        whole = e.b.sub(self.k, e.b.srem(self.k, unit))
        rest = self._filled_up(whole) if self.rows.cut else []
        last = e.b.sub(count, e.long(1))

        def some_rows(first: Value, _: list[Value]) -> list[Value]:
            # Past the last row the last row is computed again: nothing is read or written outside.
            index = [e.minimum(e.offset(first, i), last) for i in range(self.together)]
            sums = self.dot([e.b.add(self.w, e.b.mul(i, self.stride)) for i in index], whole, rest)
            for j in range(len(self.x)):
                for i in range(self.together):
                    e.store(sums[j * self.together + i], e.offset(out, e.offset(index[i], ROWS * j), 4))
            return []

        e.loop(e.long(0), count, self.together, [], some_rows)


def row_tile(
    e: Emitter, fmt: int, together: int, positions: int, w: Value, rows: Value, k: Value, xs: Value, out: Value
) -> None:
    """out[j * 16 + r] = sum_k W[r, k] * x_j[k] for r < rows; other entries of `out` are left alone.

    w: address of row 0. xs: address of int64[positions], the addresses of float32[k].
    """
    x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]
    RowTile(e, fmt, together, w, k, x).product(rows, out)


def write_row(e: Emitter, fmt: int, row: Value, k: Value, out: Value) -> None:
    """out = float32[k] of the row at address `row`, of a format with units."""
    decoder = DECODERS[fmt](e, k)
    unit = e.room(decoder.unit)

    def decode(column: Value, _: list[Value]) -> list[Value]:
        weights = decoder.open(row, column)
        before: Value = None
        for number, (first, step) in enumerate(decoder.parts):
            value = weights(number)
            if step == 1:
                e.store(value, e.offset(unit, 4 * first))
            elif first % 2:
                for half in range(2):
                    lanes = [lane for i in range(half * 8, half * 8 + 8) for lane in (i, LANES + i)]
                    together = e.b.shuffle_vector(before, value, mask(lanes))
                    e.store(together, e.offset(unit, 4 * (first - 1 + LANES * half)))
            before = value

        def move(c: Value, _: list[Value]) -> list[Value]:
            e.store(e.load(FLOAT, e.offset(unit, e.b.sub(c, column), 4)), e.offset(out, c, 4))
            return []

        e.loop(column, e.minimum(e.offset(column, decoder.unit), k), 1, [], move)
        return []

    e.loop(e.long(0), k, decoder.unit, [], decode)
