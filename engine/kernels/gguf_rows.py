"""Decoders of GGUF's blocks, which are read as they lie in the file: a unit's scales and codes in one place."""

from __future__ import annotations

from .decoder import BYTES, FLOATS, LANES, WORDS, Decoder, Weights, runs
from .ir import BYTE, FLOAT, WORD, Value, mask, vector
from .lookup import E2M1, INTEGERS, Lookup


class Q80Rows(Decoder):
    """GGUF's Q8_0: [float16 scale][32 int8]."""

    unit = 32
    parts = runs(32)
    span = 34

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        scale = self._half(at)
        return lambda part: self.e.b.fmul(self._integers(self._codes(at, 2 + LANES * part)), scale)


class Q40Rows(Decoder):
    """GGUF's Q4_0: [float16 scale][32 4-bit integers + 8], a byte holds columns i and i + 16."""

    unit = 32
    parts = runs(32)
    span = 18

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        return self._nibbles(INTEGERS, self._times(self._half(at), 8.0), lambda part: self._codes(at, 2))


class MXFP4Rows(Decoder):
    """GGUF's MXFP4: [exponent][32 4-bit floats], a byte holds columns i and i + 16."""

    unit = 32
    parts = runs(32)
    span = 17

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        return self._nibbles(E2M1, self._times(self._power(at)), lambda part: self._codes(at, 1))


class Q50Rows(Decoder):
    """GGUF's Q5_0: [float16 scale][a fifth bit of 32 columns][as Q4_0, the other four]; 5-bit integers + 16."""

    unit = 32
    parts = runs(32)
    span = 22

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e, scale = self.e, self._half(at)
        fifth, codes = e.splat(e.load(WORD, e.offset(at, 2)), LANES), self._codes(at, 6)

        def weights(part: int) -> Value:
            bit = e.b.and_(e.b.lshr(fifth, mask(range(LANES * part, LANES * (part + 1)))), e.constant(WORDS, 1))
            low = e.b.zext(self._bits(codes, 4 * part, 4), WORDS)
            q = e.b.sub(e.b.or_(low, e.b.shl(bit, e.constant(WORDS, 4))), e.constant(WORDS, 16))
            return e.b.fmul(e.b.sitofp(q, FLOATS), scale)

        return weights


class KQuants(Decoder):
    """GGUF's Q4_K and Q5_K: [float16 d][float16 m][12 bytes: a 6-bit scale s and minimum l for 8 groups of 32][codes],
    w = d s q - m l."""

    unit = 256
    parts = runs(256)

    def _lane(self, value: Value, lane: int) -> Value:
        """One lane in all lanes."""
        return self.e.pick(value, [lane] * LANES)

    def _scales(self, at: Value) -> tuple[Value, Value]:
        """d s and m l of the 8 groups, <8 x float> each."""
        e, bits = self.e, self._bits
        first, second, third = (e.load(vector(BYTE, 4), e.offset(at, 4 + 4 * i)) for i in range(3))

        def scaled(factor: Value, low: Value, high: Value) -> Value:
            both = e.b.zext(e.b.shuffle_vector(low, high, mask(range(8))), vector(WORD, 8))
            return e.b.fmul(factor, e.b.uitofp(both, vector(FLOAT, 8)))

        # Groups 0..3 have their six bits in one byte; 4..7 four bits in the third word and two on top of the others.
        scales = bits(first, 0, 6), e.b.or_(bits(third, 0, 4), bits(first, 6, 2, 4))
        least = bits(second, 0, 6), e.b.or_(bits(third, 4, 4), bits(second, 6, 2, 4))
        return scaled(self._half(at, 8), *scales), scaled(self._half(e.offset(at, 2), 8), *least)


class Q4KRows(KQuants):
    """GGUF's Q4_K: 32 bytes hold 64 columns, low halves the first 32, high halves the others."""

    span = 144

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e = self.e
        scales, minimums = self._scales(at)
        held: list[Lookup] = []

        def weights(part: int) -> Value:
            group, half = part // 2, part % 2
            if half == 0:
                scale, least = self._lane(scales, group), self._lane(minimums, group)
                held[:] = [Lookup(e, INTEGERS, lambda value: e.b.fsub(e.b.fmul(value, scale), least))]
            codes = self._codes(at, 16 + group // 2 * 32 + LANES * half)
            return held[0].low(codes) if group % 2 == 0 else held[0].high(codes)

        return weights


class Q5KRows(KQuants):
    """GGUF's Q5_K: as Q4_K, with a fifth bit: bit g of byte i of 32 before the codes is that of column i of group g."""

    span = 176

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e = self.e
        scales, minimums = self._scales(at)

        def weights(part: int) -> Value:
            group, half = part // 2, part % 2
            codes, fifth = self._codes(at, 48 + group // 2 * 32 + LANES * half), self._codes(at, 16 + LANES * half)
            q = e.b.or_(self._bits(codes, group % 2 * 4, 4), self._bits(fifth, group, 1, 4))
            return e.b.fsub(e.b.fmul(self._integers(q), self._lane(scales, group)), self._lane(minimums, group))

        return weights


class Q6KRows(Decoder):
    """GGUF's Q6_K: [128 low halves][64 bytes of high bits][16 int8 scales][float16 d], w = d s (q - 32).

    Half of it serves 128 columns: byte i of 64 holds columns i (low) and i + 64 (high), for i < 64; byte i of 32 the
    high bits of columns i, i + 32, i + 64, i + 96, lowest first.
    """

    unit = 256
    parts = runs(256)
    span = 210

    def _open(self, row: Value, at: Value, column: Value) -> Weights:
        e = self.e
        scales = e.b.fmul(self._half(e.offset(at, 208)), self._integers(self._codes(at, 192)))

        def weights(part: int) -> Value:
            half, first = part // 8, part % 8 * LANES  # of 128 columns
            low = self._bits(self._codes(at, 64 * half + first % 64), first // 64 * 4, 4)
            high = self._bits(self._codes(at, 128 + 32 * half + first % 32), first // 32 * 2, 2, 4)
            q = e.b.sub(e.b.or_(low, high), e.constant(BYTES, 32))
            return e.b.fmul(self._integers(q), e.pick(scales, [part] * LANES))

        return weights
