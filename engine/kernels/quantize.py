"""Activations quantised to int8 in groups of 32 columns: what the packed products multiply with.

A q8 record of k columns is a run of 48-byte groups, K padded with zeros to a multiple of 64 columns:

    [32 int8 q][f32 scale][i32 -8 * sum(q)][i32 -128 * sum(q)][4 zero bytes]

scale = absmax / 127, q = x * (127 / absmax) rounded to nearest even, -127..127; a group below 2**-120 counts as
zero (scale 0). The two sums are initial values of integer accumulators: packed weights are stored with an offset of
8 or 128, and starting there takes it off again. A NaN or an infinity among the 32 makes the scale NaN or infinite,
so that it is seen in the result. Every step is exact or correctly rounded: finite activations give the same bytes on
every processor.
"""

from __future__ import annotations

from numba import njit
from numba.extending import register_jitable

from .formats import GROUP, Q8_GROUP, Q8_SCALE, Q8_SUM8, Q8_SUM128
from .ir import BYTE, FLOAT, LONG, ROUND, ROUND_BITS, VOID, WORD, Emitter, Value, function, vector
from .isa import TARGET
from .symbols import emitted, kernel

HALF_GROUP = GROUP // 2
TINY = 2.0**-120
"""Groups whose largest magnitude is below this are zero: 127 / absmax would overflow soon after."""


@register_jitable
def q8_bytes(k: int) -> int:
    """Bytes of the q8 record of `k` columns, a multiple of 32. Align records to 16 bytes, better to 64."""
    return -(-k // 64) * 2 * Q8_GROUP


def _group(e: Emitter, x: Value, q: Value) -> None:
    """Write the q8 group of float32[32] at `x` to `q`."""
    b = e.b
    floats, words = vector(FLOAT, HALF_GROUP), vector(WORD, HALF_GROUP)
    parts = [e.load(floats, e.offset(x, 4 * HALF_GROUP * half)) for half in range(2)]
    # Without their sign, floats order like integers, with NaN above infinity.
    sizes = [b.and_(b.bitcast(part, words), e.constant(words, 0x7FFFFFFF)) for part in parts]
    larger = b.select(b.icmp_unsigned(">", sizes[0], sizes[1]), sizes[0], sizes[1])
    peak = b.bitcast(e.call(f"llvm.vector.reduce.umax.v{HALF_GROUP}i32", WORD, [larger]), FLOAT)
    zero, most = e.constant(FLOAT, 0.0), e.constant(FLOAT, 127.0)
    small = b.fcmp_ordered("<", peak, e.constant(FLOAT, TINY))
    scale = b.select(small, zero, b.fdiv(peak, most))
    inverse = e.splat(b.select(small, zero, b.fdiv(most, peak)), HALF_GROUP)
    total = e.constant(words, 0)
    for half, part in enumerate(parts):
        shifted = b.fadd(b.fmul(part, inverse), e.constant(floats, ROUND))
        rounded = b.sub(b.bitcast(shifted, words), e.constant(words, ROUND_BITS))
        total = b.add(total, rounded)
        e.store(b.trunc(rounded, vector(BYTE, HALF_GROUP)), e.offset(q, HALF_GROUP * half))
    sum_q = e.call(f"llvm.vector.reduce.add.v{HALF_GROUP}i32", WORD, [total])
    e.store(scale, e.offset(q, Q8_SCALE))
    e.store(b.mul(sum_q, e.constant(WORD, -8)), e.offset(q, Q8_SUM8))
    e.store(b.mul(sum_q, e.constant(WORD, -128)), e.offset(q, Q8_SUM128))
    e.store(e.constant(WORD, 0), e.offset(q, Q8_GROUP - 4))


def write_quantize(e: Emitter, x: Value, k: Value, q: Value) -> None:
    """The body of `quantize_q8`."""
    b = e.b
    zeros = e.constant(vector(WORD, GROUP), 0)
    rest = b.ptrtoint(b.alloca(zeros.type), LONG)
    e.store(zeros, rest)
    whole = b.and_(k, e.long(-GROUP))

    def copy(column: Value, _: list[Value]) -> list[Value]:
        e.store(e.load(WORD, e.offset(x, column, 4)), e.offset(rest, b.sub(column, whole), 4))
        return []

    def group(column: Value, _: list[Value]) -> list[Value]:
        _group(e, e.offset(x, column, 4), e.offset(q, b.sdiv(column, e.long(GROUP)), Q8_GROUP))
        return []

    def last_groups(column: Value, _: list[Value]) -> list[Value]:
        _group(e, rest, e.offset(q, b.sdiv(column, e.long(GROUP)), Q8_GROUP))
        e.store(zeros, rest)
        return []

    e.loop(e.long(0), whole, GROUP, [], group)
    # The columns that fill no group are copied into zeros; the group after them, if any, is zeros alone.
    e.loop(whole, k, 1, [], copy)
    e.loop(whole, b.and_(e.offset(k, 63), e.long(-64)), GROUP, [], last_groups)


SIGNATURE = "void(int64, int64, int64)"
_emitted = emitted(SIGNATURE, lambda module: function(module, TARGET, "colibri_q8_record", 3, VOID, write_quantize))


@kernel(SIGNATURE)
def _quantize_q8(x: int, k: int, q: int) -> None:
    _emitted(x, k, q)


@njit(cache=True, nogil=True)
def quantize_q8(x: int, k: int, q: int) -> None:
    """Write the q8 record of float32[k] at `x` to `q`: q8_bytes(k) bytes, all of them."""
    _quantize_q8(x, k, q)
