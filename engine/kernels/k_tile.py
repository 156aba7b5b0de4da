"""Products of up to 16 rows of K-quants (`k_rows`) with a fixed number of positions of `planes`.

Rows lie side by side in the lanes of vectors. A group's dot product is an exact integer; it is scaled, and added to a
row's sum in the order of the groups: what is computed is the same for every number of rows and positions, and on every
processor with fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dot import add_dot, dot_sums, no_dot
from .formats import ROWS
from .ir import FLOAT, LONG, WORD, Emitter, Value, vector
from .k_rows import K_ROWS
from .planes import GROUP, PLANES, SCALES, SUMS16, SUMS32, UNIT, UNIT_BYTES

LINE = 64
"""Bytes that come together when a row is asked for."""


class KTile:
    """Writes the product of rows at `w` with the records `x`."""

    def __init__(self, e: Emitter, fmt: int, w: Value, k: Value, x: Sequence[Value]) -> None:
        self.e, self.w, self.x = e, w, x
        self._lanes = e.target.vector // 32
        self._floats, self._words = vector(FLOAT, self._lanes), vector(WORD, self._lanes)
        self.rows = K_ROWS[fmt](e, self._lanes)
        self._units = e.b.sdiv(k, e.long(UNIT))
        self._stride = e.b.mul(self._units, e.long(self.rows.span))
        self._groups = UNIT // self.rows.group
        self._scales = e.room(2 * self._lanes * self._groups)  # [group][scale, least]
        self._results = e.room(self._lanes * len(x))

    def product(self, count: Value, out: Value) -> None:
        """out[j * 16 + r] = W[r] . x_j for r < count."""
        e = self.e
        last = e.b.sub(count, e.long(1))
        zeros = [e.constant(self._floats, 0.0)] * len(self.x)

        def some_rows(first: Value, _: list[Value]) -> list[Value]:
            # Past the last row the last row is computed again: nothing is read or written outside.
            index = [e.minimum(e.offset(first, i), last) for i in range(self._lanes)]
            rows = [e.b.add(self.w, e.b.mul(i, self._stride)) for i in index]
            sums = e.loop(e.long(0), self._units, 1, zeros, lambda unit, sums: self._unit(rows, unit, sums))
            for j, value in enumerate(sums):
                e.store(value, e.offset(self._results, 4 * self._lanes * j))

            def finish(row: Value, _: list[Value]) -> list[Value]:
                for j in range(len(sums)):
                    lane = e.offset(e.offset(self._results, e.b.sub(row, first), 4), 4 * self._lanes * j)
                    e.store(e.load(FLOAT, lane), e.offset(e.offset(out, row, 4), 4 * ROWS * j))
                return []

            e.loop(first, e.minimum(e.offset(first, self._lanes), count), 1, [], finish)
            return []

        e.loop(e.long(0), count, self._lanes, [], some_rows)

    def _unit(self, rows: Sequence[Value], unit: Value, sums: Sequence[Value]) -> list[Value]:
        """Add a unit of all rows."""
        e, size = self.e, 4 * self._lanes
        skip, record = e.b.mul(unit, e.long(self.rows.span)), e.b.mul(unit, e.long(UNIT_BYTES))
        at, records = [e.b.add(row, skip) for row in rows], [e.b.add(x, record) for x in self.x]
        later = e.offset(e.offset(rows[0], self._stride, self._lanes), skip, self._lanes)  # rows that follow these
        for number, pair in enumerate(self.rows.scales(at)):
            for i, value in enumerate(pair):
                e.store(value, e.offset(self._scales, (2 * number + i) * size))
        begun, together = self.rows.begin(at), self._groups // self.rows.turns
        a_turn = self._lanes * self.rows.span // self.rows.turns

        def turn(number: Value, sums: list[Value]) -> list[Value]:
            scales, ahead = e.offset(self._scales, number, 2 * size * together), e.offset(later, number, a_turn)
            digits = e.b.mul(number, e.long(PLANES * UNIT // self.rows.turns))
            for group, codes in enumerate(self.rows.turn(at, number, begun)):
                # Asked for in the order of addresses, though rows are used side by side, and a few lines at a time:
                # all at once, weights come half as fast.
                for line in range(LINE * group, a_turn, LINE * together):
                    e.prefetch(e.offset(ahead, line))
                pair = [e.load(self._floats, e.offset(scales, (2 * group + i) * size)) for i in range(2)]
                sums = [
                    self._group(codes, pair, group, number, record, e.b.add(record, digits), total)
                    for record, total in zip(records, sums, strict=True)
                ]
            return sums

        return e.loop(e.long(0), e.long(self.rows.turns), 1, sums, turn)

    def _group(
        self, codes: Sequence[Value], scales: Sequence[Value], group: int, turn: Value, record: Value, digits: Value,
        total: Value,
    ) -> Value:  # fmt: skip
        """total + W . x over a group of the turn."""
        e, b, columns = self.e, self.e.b, self.rows.group
        whole, inside = divmod(group * columns, GROUP)
        planes = [no_dot(e, self._lanes)] * PLANES
        for step, four in enumerate(codes):
            for plane in range(PLANES):
                at = (PLANES * whole + plane) * GROUP + inside + 4 * step
                x = e.splat(e.load(WORD, e.offset(digits, at)), self._lanes)
                planes[plane] = add_dot(e, planes[plane], four, x)
        planes = [dot_sums(e, plane) for plane in planes]
        low = b.sitofp(b.add(b.shl(planes[1], e.constant(self._words, 8)), planes[0]), self._floats)
        value = e.fma(b.sitofp(planes[2], self._floats), e.constant(self._floats, 65536.0), low)
        together = self._groups // self.rows.turns
        first = e.offset(record, turn, 4 * together * columns // GROUP)
        scale = e.splat(e.load(FLOAT, e.offset(first, SCALES + 4 * whole)), self._lanes)
        sums = e.offset(record, turn, 4 * together)
        less = e.splat(e.load(FLOAT, e.offset(sums, (SUMS32 if columns == GROUP else SUMS16) + 4 * group)), self._lanes)
        return e.fma(scales[1], less, e.fma(value, b.fmul(scales[0], scale), total))


def k_tile(e: Emitter, fmt: int, positions: int, w: Value, rows: Value, k: Value, xs: Value, out: Value) -> None:
    """out[j * 16 + r] = sum_k W[r, k] * x_j[k] for r < rows; other entries of `out` are left alone.

    w: address of row 0. xs: address of int64[positions], the addresses of records of k columns.
    """
    x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]
    KTile(e, fmt, w, k, x).product(rows, out)
