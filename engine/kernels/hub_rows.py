"""Decoders of what safetensors files hold: floats, 8-bit floats, integers, the last two with scales behind them."""

from __future__ import annotations

from abc import abstractmethod

from .decoder import LANES, Decoder, Weights, pairs, runs
from .dot import SHORT
from .formats import BF16, F16, F32, itemsize
from .ir import BYTE, FLOAT, WORD, Value, vector
from .lookup import E2M1, INTEGERS


class FloatRows(Decoder):
    """float32, float16, bfloat16. Columns that fill no unit are read one by one, by `weight`."""

    unit = LANES
    parts = runs(LANES)

    def stride(self) -> Value:
        """k elements: a row ends anywhere."""
        return self.e.b.mul(self.k, self.e.long(self.span // LANES))

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        return lambda part: self._weights(at, LANES)

    def weight(self, row: Value, column: Value) -> Value:
        """One weight."""
        return self._weights(self.e.offset(row, column, self.span // LANES), 1)

    @abstractmethod
    def _weights(self, at: Value, lanes: int) -> Value:
        """`lanes` weights."""


class F32Rows(FloatRows):
    """float32."""

    span = LANES * itemsize(F32)

    def _weights(self, at: Value, lanes: int) -> Value:
        return self.e.load(vector(FLOAT, lanes), at)


class F16Rows(FloatRows):
    """float16."""

    span = LANES * itemsize(F16)

    def _weights(self, at: Value, lanes: int) -> Value:
        return self.e.half_to_float(self.e.load(vector(SHORT, lanes), at))


class BF16Rows(FloatRows):
    """bfloat16: the upper half of a float32."""

    span = LANES * itemsize(BF16)

    def _weights(self, at: Value, lanes: int) -> Value:
        e, words = self.e, vector(WORD, lanes)
        bits = e.b.zext(e.load(vector(SHORT, lanes), at), words)
        return e.b.bitcast(e.b.shl(bits, e.constant(words, 16)), vector(FLOAT, lanes))


class F8Rows(Decoder):
    """8-bit floats (e4m3 without infinities), behind them a float32 scale for each unit. Codes of NaN read as 480."""

    unit = 128
    parts = runs(128)
    span, behind, cut = 128, 4, True

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e = self.e
        # A code moved into the place of a float16 is 2^-8 of its value: the exponent counts from 15 instead of 7.
        # (Moved into a float32 small codes would not be normal numbers, which many processors multiply slowly.)
        scale = e.b.fmul(e.load(FLOAT, self._behind(row, column, 4)), e.constant(FLOAT, 256.0))
        scales, shorts = e.splat(scale, LANES), vector(SHORT, 2 * LANES)
        held: list[Value] = []

        def weights(part: int) -> Value:
            if part % 2 == 0:
                both = e.b.sext(e.load(vector(BYTE, 2 * LANES), e.offset(at, LANES * part)), shorts)
                held[:] = [e.b.and_(e.b.shl(both, e.constant(shorts, 7)), e.constant(shorts, 0xBF80))]
            start = part % 2 * LANES
            return e.b.fmul(e.half_to_float(e.pick(held[0], range(start, start + LANES))), scales)

        return weights


class I8SRows(Decoder):
    """int8, behind them one float32 scale for the row."""

    unit = 32
    parts = runs(32)
    span, once, cut = 32, 4, True

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        scale = self._float(self.e.offset(row, self._units, self.span))
        return lambda part: self.e.b.fmul(self._integers(self._codes(at, LANES * part)), scale)


class MX4Rows(Decoder):
    """4-bit floats, even columns in the low halves, behind them a power of two for each unit (gpt-oss)."""

    unit = 32
    parts = pairs(32)
    span, behind = 16, 1

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        scale = self._power(self._behind(row, column, 1))
        return self._nibbles(E2M1, self._times(scale), lambda part: self._codes(at))


class I4SRows(Decoder):
    """4-bit integers + 8, even columns in the low halves, behind them a bfloat16 scale for each unit."""

    unit = 32
    parts = pairs(32)
    span, behind, cut = 16, 2, True

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e = self.e
        bits = e.b.zext(e.load(SHORT, self._behind(row, column, 2)), WORD)
        scale = e.splat(e.b.bitcast(e.b.shl(bits, e.constant(WORD, 16)), FLOAT), LANES)
        return self._nibbles(INTEGERS, self._times(scale, 8.0), lambda part: self._codes(at))


class I4ZRows(Decoder):
    """4-bit integers, even columns in the low halves, behind them each unit's float32 scale, then each one's zero
    point."""

    behind, cut = 5, True

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e = self.e
        scale = self._float(self._behind(row, column, 4))
        zero = e.splat(e.b.uitofp(e.load(BYTE, self._behind(row, column, 1, skip=4)), FLOAT), LANES)
        return self._nibbles(
            INTEGERS,
            lambda value: e.b.fmul(e.b.fsub(value, zero), scale),
            lambda part: self._codes(at, part // 2 * LANES),
        )


class I4Z32Rows(I4ZRows):
    """With units of 32 columns."""

    unit = 32
    parts = pairs(32)
    span = 16


class I4Z128Rows(I4ZRows):
    """With units of 128 columns."""

    unit = 128
    parts = pairs(128)
    span = 64
