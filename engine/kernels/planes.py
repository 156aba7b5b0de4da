"""Activations as integers of 24 bits in three planes of bytes: what products with K-quants take.

float32 holds 24 bits. Activations that share a scale and are rounded to as many bits are thus as exact, beside the
largest of them, as they were; a product of integers is exact; and 4-way dot products of bytes take three instructions
where float32 takes four and a conversion of each weight.

A record of k columns is a run of units of 256 columns, in groups of 32 that share a scale. q = d0 + 256 d1 + 65536 d2,
with digits d of -128..127. A unit is

    [8 x [32 int8 d0][32 int8 d1][32 int8 d2]][8 x f32 scale][8 x f32 -scale * sum(q)][16 x f32: the same of 16 columns]

scale = absmax / 127 / 65536; a group below 2**-100 counts as zero. A NaN or an infinity makes the scale so, and is seen
in the result. Every step is exact or correctly rounded: the same bytes on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numba import njit
from numba.extending import register_jitable

from .ir import BYTE, FLOAT, VOID, WORD, Emitter, Value, function, mask, vector
from .isa import TARGET
from .symbols import emitted, kernel

UNIT = 256
"""Columns of a unit."""

GROUP = 32
"""Columns with a scale."""

PLANES = 3

SCALES = PLANES * UNIT
SUMS32 = SCALES + 32
SUMS16 = SUMS32 + 32
UNIT_BYTES = SUMS16 + 64
"""Where in a unit the scales and sums lie, and its bytes, a multiple of 64."""

LANES = 16

MOST = 127.0 * 65536.0
"""The largest q but for a rounding; its digits are 127, 0, 0."""

TINY = 2.0**-100

FLOATS, WORDS = vector(FLOAT, LANES), vector(WORD, LANES)


@register_jitable
def planes_bytes(k: int) -> int:
    """Bytes of the record of `k` columns, which are whole units."""
    return k // UNIT * UNIT_BYTES


def _unit(e: Emitter, x: Value, out: Value) -> None:
    """Write the unit of float32[256] at `x` to `out`."""
    b, groups = e.b, UNIT // GROUP
    some = vector(FLOAT, groups)
    parts = [e.load(FLOATS, e.offset(x, 4 * first)) for first in range(0, UNIT, LANES)]
    # Without their sign, floats order like integers, with NaN above infinity.
    sizes = [b.and_(b.bitcast(part, WORDS), e.constant(WORDS, 0x7FFFFFFF)) for part in parts]

    def larger(one: Value, other: Value) -> Value:
        return b.select(b.icmp_unsigned(">", one, other), one, other)

    peaks = b.bitcast(_by_group(e, _paired(sizes, larger), larger), some)
    small, zero = b.fcmp_ordered("<", peaks, e.constant(some, TINY)), e.constant(some, 0.0)
    scales = b.select(small, zero, b.fdiv(peaks, e.constant(some, MOST)))
    inverse = b.select(small, zero, b.fdiv(e.constant(some, MOST), peaks))
    e.store(scales, e.offset(out, SCALES))
    integers = []
    for number, part in enumerate(parts):
        group, inside = divmod(number * LANES, GROUP)
        scaled = b.fmul(part, e.pick(inverse, [group] * LANES))
        sign = b.and_(b.bitcast(scaled, WORDS), e.constant(WORDS, -(1 << 31)))
        half = b.bitcast(b.or_(sign, e.constant(WORDS, 0x3F000000)), FLOATS)
        q = b.fptosi(b.fadd(scaled, half), WORDS)
        integers.append(q)
        digits = b.xor(b.add(q, e.constant(WORDS, 0x808080)), e.constant(WORDS, 0x808080))
        for plane in range(PLANES):
            shifted = b.lshr(digits, e.constant(WORDS, 8 * plane)) if plane else digits
            at = (PLANES * group + plane) * GROUP + inside
            e.store(b.trunc(shifted, vector(BYTE, LANES)), e.offset(out, at))
    less = b.fsub(e.constant(some, -0.0), scales)
    by_16 = _by_group(e, integers, b.add)
    by_32 = b.add(e.pick(by_16, range(0, LANES, 2)), e.pick(by_16, range(1, LANES, 2)))
    e.store(b.fmul(b.sitofp(by_32, some), less), e.offset(out, SUMS32))
    each = e.pick(less, [i // 2 for i in range(LANES)])
    e.store(b.fmul(b.sitofp(by_16, FLOATS), each), e.offset(out, SUMS16))


def _paired(values: Sequence[Value], op: Callable[[Value, Value], Value]) -> list[Value]:
    return [op(*values[i : i + 2]) for i in range(0, len(values), 2)]


def _by_group(e: Emitter, values: Sequence[Value], op: Callable[[Value, Value], Value]) -> Value:
    """`op` over the lanes of each value, one after another: <16 x T> * n -> <n x T>, n 8 or 16."""
    lanes = LANES  # that a value still has
    while lanes > 1:
        half = lanes // 2
        width = LANES * len(values[:2])
        low, high = (
            mask(start + skip + i for start in range(0, width, lanes) for i in range(half)) for skip in (0, half)
        )
        pairs = [tuple(values[i : i + 2]) for i in range(0, len(values), 2)] if len(values) > 1 else [(values[0],) * 2]
        values = [op(e.b.shuffle_vector(*pair, low), e.b.shuffle_vector(*pair, high)) for pair in pairs]
        lanes = half
    return values[0]


def write_planes(e: Emitter, x: Value, k: Value, out: Value) -> None:
    """The body of `quantize_planes`."""

    def unit(column: Value, _: list[Value]) -> list[Value]:
        place = e.b.mul(e.b.sdiv(column, e.long(UNIT)), e.long(UNIT_BYTES))
        _unit(e, e.offset(x, column, 4), e.b.add(out, place))
        return []

    e.loop(e.long(0), k, UNIT, [], unit)


SIGNATURE = "void(int64, int64, int64)"
_emitted = emitted(SIGNATURE, lambda module: function(module, TARGET, "colibri_planes_record", 3, VOID, write_planes))


@kernel(SIGNATURE)
def _quantize_planes(x: int, k: int, out: int) -> None:
    _emitted(x, k, out)


@njit(cache=True, nogil=True)
def quantize_planes(x: int, k: int, out: int) -> None:
    """Write the record of float32[k] at `x` to `out`: planes_bytes(k) bytes, all of them. k: whole units."""
    _quantize_planes(x, k, out)
