"""Products of one packed block of 16 rows with a fixed number of positions.

Every group of 32 columns gives an exact integer for each row and position; it becomes a float, is multiplied by its
scales and added with one fma. That order does not depend on the number of positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dot import SHORT, group_dots
from .formats import I4G_PAIR, I4G_SCALES, I8R, I8R_SCALES, Q8_GROUP, Q8_SCALE, ROWS, unit_shift
from .ir import BYTE, FLOAT, LONG, WORD, Emitter, Value, vector

VECTOR = 64
"""Bytes of a stored vector."""

NEAR, FAR = 512, 8192
"""Bytes the memory is asked for ahead of use, with one position and with several (measured). Processors fetch a stream
ahead by themselves, but the more instructions a line costs, the fewer lines they keep in flight."""


class PackedTile:
    """Writes the product of some rows of a block with activation records.

    A stored vector is cut into parts of one register, `rows` rows each; `parts` are the byte offsets of those that are
    computed at the same time. `sums` in the methods is [part][position], flat.
    """

    def __init__(self, e: Emitter, w: Value, x: Sequence[Value], rows: int, parts: Sequence[Value]) -> None:
        self.e, self.w, self.x, self.rows, self.parts = e, w, x, rows, parts
        self.floats = vector(FLOAT, rows)

    def zeros(self) -> list[Value]:
        """Sums to start from."""
        return [self.e.constant(self.floats, 0.0)] * (len(self.parts) * len(self.x))

    def accumulate(
        self, sums: list[Value], part: int, dots: Sequence[Value], records: Sequence[Value], scale: Value | None
    ) -> None:
        """Add the integers of a group: sums[part] += dots * weight scale (if there is one) * activation scale."""
        e = self.e
        for j, record in enumerate(records):
            value = e.b.sitofp(dots[j], self.floats)
            if scale is not None:
                value = e.b.fmul(value, scale)
            activation = e.splat(e.load(FLOAT, e.offset(record, Q8_SCALE)), self.rows)
            index = part * len(self.x) + j
            sums[index] = e.fma(value, activation, sums[index])

    def records(self, group: Value, later: int) -> list[Value]:
        """Addresses of the q8 group `group` + `later` of each position."""
        return [self.e.offset(self.e.offset(x, group, Q8_GROUP), later * Q8_GROUP) for x in self.x]

    def prefetch(self, address: Value, size: int) -> None:
        """Ask for the lines that will be used some way after `address`."""
        ahead = NEAR if len(self.x) == 1 else FAR
        for line in range(0, size, VECTOR):
            self.e.prefetch(self.e.offset(address, ahead + line))

    def i8r_groups(self, group: Value, sums: list[Value], count: int) -> list[Value]:
        """Add `count` groups of 32 columns of an I8R block, from `group` on."""
        e, size = self.e, 8 * VECTOR
        sums = list(sums)
        base = e.offset(e.offset(self.w, group, size), I8R_SCALES)
        self.prefetch(base, count * size)
        records = [self.records(group, later) for later in range(count)]
        for part, offset in enumerate(self.parts):
            starts = [e.offset(e.b.add(base, offset), later * size) for later in range(count)]
            weights = [_Bytes(e, start, self.rows) for start in starts]
            results = group_dots(e, list(zip(weights, records, strict=True)), 128, self.rows)
            for later in range(count):
                self.accumulate(sums, part, results[later], records[later], None)
        return sums

    def int4_pair(self, fmt: int, pair: Value, sums: list[Value]) -> list[Value]:
        """Add columns 64 * `pair` .. + 63 of a block of an int4 format."""
        e, shift = self.e, unit_shift(fmt)
        sums = list(sums)
        unit = e.b.lshr(pair, e.long(shift))
        base = e.offset(e.offset(e.offset(self.w, pair, I4G_PAIR), unit, I4G_SCALES), I4G_SCALES)
        before = e.b.and_(pair, e.long((1 << shift) - 1))  # pairs of the unit
        scales = e.b.sub(base, e.offset(e.long(I4G_SCALES), before, I4G_PAIR))
        self.prefetch(e.offset(base, -I4G_SCALES), I4G_SCALES + I4G_PAIR)
        records = [self.records(e.b.shl(pair, e.long(1)), group) for group in range(2)]
        for part, offset in enumerate(self.parts):
            starts = [e.offset(e.b.add(base, offset), group * 4 * VECTOR) for group in range(2)]
            weights = [_Nibbles(e, start, self.rows) for start in starts]
            results = group_dots(e, list(zip(weights, records, strict=True)), 8, self.rows)
            at = e.b.add(scales, e.b.lshr(offset, e.long(1)))  # 2 bytes a row beside 4 of a stored vector
            if shift:  # one scale for both
                second = e.b.lshr(before, e.long(shift - 1))
                scale = self._scale(e.offset(at, second, 2 * ROWS))
                both = [scale, scale]
            else:
                both = [self._scale(e.offset(at, 2 * ROWS * group)) for group in range(2)]
            for group, scale in enumerate(both):
                self.accumulate(sums, part, results[group], records[group], scale)
        return sums

    def _scale(self, at: Value) -> Value:
        """Weight scales of a part's rows."""
        return self.e.half_to_float(self.e.load(vector(SHORT, self.rows), at))

    def store(self, sums: list[Value], out: Value, scales: Value | None) -> None:
        """Write the sums of every position, times the row scales at `scales` if there are any."""
        e = self.e
        for part, offset in enumerate(self.parts):
            for j in range(len(self.x)):
                value = sums[part * len(self.x) + j]
                if scales is not None:
                    value = e.b.fmul(value, e.load(self.floats, e.b.add(scales, offset)))
                e.store(value, e.offset(e.b.add(out, offset), 4 * ROWS * j))


class _Bytes:
    """Weights of an int8 group by step."""

    def __init__(self, e: Emitter, start: Value, rows: int) -> None:
        self._e, self._start, self._kind = e, start, vector(BYTE, 4 * rows)

    def __call__(self, step: int) -> Value:
        return self._e.load(self._kind, self._e.offset(self._start, step * VECTOR))


class _Nibbles:
    """Weights of an int4 group by step: even steps are the low nibbles of a vector, odd steps the high ones."""

    def __init__(self, e: Emitter, start: Value, rows: int) -> None:
        self._e, self._start, self._rows = e, start, rows
        self._both: Value = None

    def __call__(self, step: int) -> Value:
        e, words = self._e, vector(WORD, self._rows)
        if step % 2 == 0:
            self._both = e.load(words, e.offset(self._start, step // 2 * VECTOR))
        value = self._both if step % 2 == 0 else e.b.lshr(self._both, e.constant(words, 4))
        return e.b.bitcast(e.b.and_(value, e.constant(words, 0x0F0F0F0F)), vector(BYTE, 4 * self._rows))


def packed_tile(e: Emitter, fmt: int, positions: int, w: Value, k: Value, xs: Value, out: Value) -> None:
    """out[j][r] = sum_k W[r, k] * x_j[k], float32 [positions][16].

    w: address of the block. k: columns. xs: address of int64[positions], the addresses of q8 records.
    """
    x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]
    rows = e.target.vector // 32
    width = 4 * rows

    def product(parts: Sequence[Value]) -> None:
        tile = PackedTile(e, w, x, rows, parts)
        if fmt != I8R:
            pairs = e.b.sdiv(e.offset(k, 63), e.long(64))
            sums = e.loop(e.long(0), pairs, 1, tile.zeros(), lambda pair, sums: tile.int4_pair(fmt, pair, sums))
            tile.store(sums, out, None)
            return
        groups = e.b.sdiv(e.offset(k, 31), e.long(32))
        pairs = e.b.and_(groups, e.long(-2))
        sums = e.loop(e.long(0), pairs, 2, tile.zeros(), lambda group, sums: tile.i8r_groups(group, sums, 2))
        sums = e.loop(pairs, groups, 1, sums, lambda group, sums: tile.i8r_groups(group, sums, 1))
        tile.store(sums, out, w)

    def one_part(offset: Value, _: list[Value]) -> list[Value]:
        product([offset])
        return []

    if positions == 1:  # one pass over the block: memory is the limit
        product([e.long(offset) for offset in range(0, VECTOR, width)])
    else:  # a pass for each part, from the cache: registers are the limit
        e.loop(e.long(0), e.long(VECTOR), width, [], one_part)
