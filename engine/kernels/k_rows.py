"""GGUF's K-quants read for products: the codes of several rows side by side, four columns of each in a lane.

Units are described in `gguf_rows`. Blocks of bytes of all rows are loaded and turned, so that a vector holds the same
four columns of every row; a dot product of bytes then advances all rows by four columns, and scales are vectors too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from .dot import SHORT
from .formats import Q4_K, Q5_K, Q6_K
from .ir import BYTE, FLOAT, WORD, Emitter, Value, mask, vector

Held = tuple[list[tuple[int, int]], Value]
"""(row, number of the word) by lane, and the vector."""


def turned(e: Emitter, at: Sequence[Value], words: int) -> list[Value]:
    """Some 4-byte words at each row's address -> the first of every row, the second of every row, ... ."""
    rows = len(at)
    held: list[Held]
    if words >= rows:
        loaded = []
        for first in range(0, words, rows):
            loaded += [(row, first, e.load(vector(WORD, rows), e.offset(a, 4 * first))) for row, a in enumerate(at)]
        held = [([(row, first + i) for i in range(rows)], value) for row, first, value in loaded]
    else:
        held = [([(row, i) for i in range(words)], e.load(vector(WORD, words), a)) for row, a in enumerate(at)]
        while len(held[0][0]) < rows:
            held = [
                (first + second, e.b.shuffle_vector(a, b, mask(range(2 * len(first)))))
                for (first, a), (second, b) in zip(held[::2], held[1::2], strict=True)
            ]
    found: list[Value] = [None] * words
    for first in range(0, words, rows):
        numbers = range(first, min(first + rows, words))
        _split(e, numbers, [(ids, value) for ids, value in held if ids[0][1] in numbers], found)
    return found


def _split(e: Emitter, numbers: Sequence[int], held: Sequence[Held], found: list[Value]) -> None:
    """Two vectors with the same words of some rows become two with half of the words of all those rows."""
    if len(held) == 1:
        ids, value = held[0]
        for number in numbers:
            wanted = [(row, number) for row in range(len(ids))]
            found[number] = value if ids == wanted else e.pick(value, [ids.index(i) for i in wanted])
        return
    for some in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
        merged = []
        for (first, a), (second, b) in zip(held[::2], held[1::2], strict=True):
            both = first + second
            ids = [i for number in some for i in both if i[1] == number]
            merged.append((ids, e.b.shuffle_vector(a, b, mask(both.index(i) for i in ids))))
        _split(e, some, merged, found)


class KRows(ABC):
    """Reads a unit of 256 columns of several rows, in some turns.

    span: bytes of a unit. group: columns with the same scale. turns: how many a unit has.
    """

    span: ClassVar[int]
    group: ClassVar[int]
    turns: ClassVar[int]

    def __init__(self, e: Emitter, rows: int) -> None:
        self.e, self.rows = e, rows
        self._words, self._floats, self._bytes = vector(WORD, rows), vector(FLOAT, rows), vector(BYTE, 4 * rows)

    @abstractmethod
    def scales(self, at: Sequence[Value]) -> list[tuple[Value, Value]]:
        """(scale, least) of every group of the units at these addresses: w = scale * code - least."""

    @abstractmethod
    def begin(self, at: Sequence[Value]) -> list[Value]:
        """What all turns need."""

    @abstractmethod
    def turn(self, at: Sequence[Value], number: Value, begun: list[Value]) -> Iterator[list[Value]]:
        """The groups of a turn: codes by step of 4 columns, <rows * 4 x i8>."""

    def _turned(self, at: Sequence[Value], offset: Value | int, size: int) -> list[Value]:
        return turned(self.e, [self.e.offset(a, offset) for a in at], size // 4)

    def _bits(self, words: Value, right: int, chosen: int) -> Value:
        """words >> right & chosen; << if that is negative."""
        b = self.e.b
        if right:
            by = self.e.constant(words.type, abs(right))
            words = b.lshr(words, by) if right > 0 else b.shl(words, by)
        return b.and_(words, self.e.constant(words.type, chosen))

    def _codes(self, words: Sequence[Value]) -> list[Value]:
        return [self.e.b.bitcast(word, self._bytes) for word in words]

    def _half(self, words: Value, right: int) -> Value:
        """The float16 at bits `right`... ."""
        e = self.e
        return e.half_to_float(e.b.trunc(self._bits(words, right, 0xFFFF), vector(SHORT, self.rows)))


class Q4KRows(KRows):
    """Q4_K. A turn is 32 bytes of codes, two groups."""

    span, group, turns = 144, 32, 4
    codes: ClassVar[int] = 16

    def scales(self, at: Sequence[Value]) -> list[tuple[Value, Value]]:
        """Six bits of each, in three words behind the two factors."""
        e = self.e
        factors, first, second, third = self._turned(at, 0, 16)
        factor, least = self._half(factors, 0), self._half(factors, 16)

        def six(words: Value, nibbles: int, g: int) -> Value:
            # Groups 0..3 have their bits in one byte; 4..7 four bits in the third word, two on top of the others.
            bit = g % 4 * 8
            if g < 4:
                bits = self._bits(words, bit, 63)
            else:
                bits = e.b.or_(self._bits(third, bit + nibbles, 15), self._bits(words, bit + 2, 0x30))
            return e.b.sitofp(bits, self._floats)

        return [(e.b.fmul(six(first, 0, g), factor), e.b.fmul(six(second, 4, g), least)) for g in range(8)]

    def begin(self, at: Sequence[Value]) -> list[Value]:
        """Nothing."""
        return []

    def turn(self, at: Sequence[Value], number: Value, begun: list[Value]) -> Iterator[list[Value]]:
        """The low halves of bytes, then the high ones."""
        words = self._turned(at, self.e.offset(self.e.long(self.codes), number, 32), 32)
        for high in range(2):
            yield self._codes([self._bits(w, 4 * high, 0x0F0F0F0F) for w in words])


class Q5KRows(Q4KRows):
    """Q5_K: 32 bytes before the codes hold fifth bits, the lowest those of group 0."""

    span, codes = 176, 48

    def begin(self, at: Sequence[Value]) -> list[Value]:
        """Fifth bits, of all groups."""
        return self._turned(at, 16, 32)

    def turn(self, at: Sequence[Value], number: Value, begun: list[Value]) -> Iterator[list[Value]]:
        """As Q4_K, with the fifth bits."""
        e = self.e
        by = e.splat(e.b.trunc(e.b.mul(number, e.long(2)), WORD), self.rows)
        fifth = [e.b.lshr(more, by) for more in begun]
        words = self._turned(at, e.offset(e.long(self.codes), number, 32), 32)
        for high in range(2):
            bits = [self._bits(more, high - 4, 0x10101010) for more in fifth]
            low = [self._bits(w, 4 * high, 0x0F0F0F0F) for w in words]
            yield self._codes([e.b.or_(*pair) for pair in zip(low, bits, strict=True)])


class Q6KRows(KRows):
    """Q6_K. A turn is half of a unit, eight groups."""

    span, group, turns = 210, 16, 2

    def scales(self, at: Sequence[Value]) -> list[tuple[Value, Value]]:
        """Signed bytes times the factor; codes count from -32."""
        e = self.e
        words = self._turned(at, 192, 16)
        factor = self._half(self._turned(at, 194, 16)[3], 16)  # it ends the unit
        found = []
        for g in range(16):
            byte = e.b.shl(words[g // 4], e.constant(self._words, 24 - g % 4 * 8))
            integer = e.b.ashr(byte, e.constant(self._words, 24))
            scale = e.b.fmul(e.b.sitofp(integer, self._floats), factor)
            found.append((scale, e.b.fmul(scale, e.constant(self._floats, 32.0))))
        return found

    def begin(self, at: Sequence[Value]) -> list[Value]:
        """Nothing."""
        return []

    def turn(self, at: Sequence[Value], number: Value, begun: list[Value]) -> Iterator[list[Value]]:
        """32 columns at a time, the low halves of all bytes first."""
        e = self.e
        more = self._turned(at, e.offset(e.long(128), number, 32), 32)
        start = e.offset(e.long(0), number, 64)
        low = [self._turned(at, e.offset(start, 32 * part), 32) for part in range(2)]
        for part in range(4):
            words = [
                e.b.or_(self._bits(w, part // 2 * 4, 0x0F0F0F0F), self._bits(m, 2 * part - 4, 0x30303030))
                for w, m in zip(low[part % 2], more, strict=True)
            ]
            for side in range(2):
                yield self._codes(words[4 * side : 4 * side + 4])


K_ROWS: dict[int, type[KRows]] = {Q4_K: Q4KRows, Q5_K: Q5KRows, Q6_K: Q6KRows}
"""By format."""
