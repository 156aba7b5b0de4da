"""Reading rows of weights: how each row-major format turns the columns of a unit into float32.

A row is a run of units, each decoded at once; a unit is cut into parts of 16 columns, in the order in which the format
has them at hand. A decoded weight is the value that the stored one stands for, correctly rounded. A product is thus the
same, to the last bit, as that of the float32 matrix whose columns are taken in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from .dot import SHORT
from .ir import BYTE, FLOAT, WORD, Emitter, Value, vector
from .lookup import Lookup, Scaling

LANES = 16
"""Columns of a part."""

FLOATS = vector(FLOAT, LANES)
WORDS = vector(WORD, LANES)
BYTES = vector(BYTE, LANES)


class Part(NamedTuple):
    """16 columns of a unit: `first`, `first` + `step`, ..."""

    first: int
    step: int


Weights = Callable[[int], Value]
"""The weights of a part by its number, <16 x float>; parts are asked in ascending order."""


def runs(columns: int) -> tuple[Part, ...]:
    """Parts of neighbouring columns."""
    return tuple(Part(first, 1) for first in range(0, columns, LANES))


def pairs(columns: int) -> tuple[Part, ...]:
    """Parts of 32 columns: the even ones, then the odd ones."""
    return tuple(Part(first + odd, 2) for first in range(0, columns, 32) for odd in range(2))


class Decoder(ABC):
    """Writes the reading of one format.

    unit: columns of a unit. parts: its columns. span: bytes from the place of a unit to that of the next. behind: bytes
    that each unit has behind the units. once: bytes behind all that. cut: whether rows can end within a unit.
    """

    unit: ClassVar[int]
    parts: ClassVar[tuple[Part, ...]]
    span: ClassVar[int]
    behind: ClassVar[int] = 0
    once: ClassVar[int] = 0
    cut: ClassVar[bool] = False

    def __init__(self, e: Emitter, k: Value) -> None:
        self.e, self.k = e, k
        self._units = e.b.sdiv(e.offset(k, self.unit - 1), e.long(self.unit))

    def stride(self) -> Value:
        """Bytes from one row to the next."""
        return self.e.offset(self.e.offset(self.e.long(self.once), self._units, self.span), self._units, self.behind)

    def place(self, column: Value) -> Value:
        """Bytes from the start of a row to the unit that begins with `column`."""
        return self.e.b.mul(self._index(column), self.e.long(self.span))

    def open(self, row: Value, column: Value) -> Weights:
        """The unit that begins with `column` of the row at address `row`."""
        return self._open(row, self.e.b.add(row, self.place(column)), column)

    @abstractmethod
    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        """The unit at address `at`."""

    # what the formats are made of

    def _index(self, column: Value) -> Value:
        """The number of the unit that begins with `column`."""
        return self.e.b.sdiv(column, self.e.long(self.unit))

    def _behind(self, row: Value, column: Value, size: int, skip: int = 0) -> Value:
        """Where the unit's entry lies in a list of entries of `size` bytes, `skip` bytes a unit behind the units."""
        start = self.e.offset(row, self._units, self.span + skip)
        return self.e.offset(start, self._index(column), size)

    def _codes(self, at: Value, offset: int = 0) -> Value:
        """16 bytes."""
        return self.e.load(BYTES, self.e.offset(at, offset))

    def _float(self, at: Value) -> Value:
        """A float32 in every lane."""
        return self.e.splat(self.e.load(FLOAT, at), LANES)

    def _half(self, at: Value, lanes: int = LANES) -> Value:
        """A float16 in every lane, as float32."""
        return self.e.half_to_float(self.e.splat(self.e.load(SHORT, at), lanes))

    def _power(self, at: Value) -> Value:
        """2^(byte - 127) in every lane, 0 for byte 0."""
        e = self.e
        bits = e.b.shl(e.b.zext(e.load(BYTE, at), WORD), e.constant(WORD, 23))
        return e.splat(e.b.bitcast(bits, FLOAT), LANES)

    def _times(self, scale: Value, less: float = 0.0) -> Scaling:
        """v -> (v - less) * scale."""
        e = self.e

        def scaling(value: Value) -> Value:
            return e.b.fmul(e.b.fsub(value, e.constant(value.type, less)) if less else value, scale)

        return scaling

    def _bits(self, value: Value, right: int, count: int, left: int = 0) -> Value:
        """(value >> right & (1 << count) - 1) << left, lane by lane."""
        b, kind = self.e.b, value.type
        value = b.lshr(value, self.e.constant(kind, right)) if right else value
        value = b.and_(value, self.e.constant(kind, (1 << count) - 1))
        return b.shl(value, self.e.constant(kind, left)) if left else value

    def _integers(self, codes: Value) -> Value:
        """Signed bytes as float32."""
        return self.e.b.sitofp(self.e.b.sext(codes, WORDS), FLOATS)

    def _nibbles(self, table: tuple[float, ...], scaling: Scaling, codes: Callable[[int], Value]) -> Weights:
        """Parts by turns the low and the high halves of 16 bytes; `codes` gives those of part 0, 2, ..."""
        lookup = Lookup(self.e, table, scaling)
        held: list[Value] = []

        def weights(part: int) -> Value:
            if part % 2 == 0:
                held[:] = [codes(part)]
                return lookup.low(held[0])
            return lookup.high(held[0])

        return weights
