"""Attention's side of the cache: storing rows of keys and values, and summing values by weight.

Rows of the cache are float32 or float16 (formats.F32, F16); all sums are float32, one key after another, so the result
does not depend on how keys are cut into calls.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .dot import SHORT
from .formats import F16, F32, itemsize
from .ir import FLOAT, HALF, WORD, Emitter, Value, function, lanes_of, vector
from .isa import TARGET, Target
from .symbols import kernel

VOID = ir.VoidType()
_WIDE, _VECTOR = 64, 16


def float_to_half(e: Emitter, value: Value) -> Value:
    """The bits of float16 nearest to a float32 (ties to even), by instruction or by integer operations."""
    lanes = lanes_of(value)
    if e.target.f16:
        return e.b.bitcast(e.b.fptrunc(value, vector(HALF, lanes)), vector(SHORT, lanes))
    kind, word = vector(FLOAT, lanes), vector(WORD, lanes)

    def constant(number: int) -> Value:
        return e.constant(word, number)

    bits = e.b.bitcast(value, word)
    sign = e.b.and_(e.b.lshr(bits, constant(16)), constant(0x8000))
    size = e.b.and_(bits, constant(0x7FFFFFFF))
    odd = e.b.and_(e.b.lshr(size, constant(13)), constant(1))
    rounded = e.b.add(e.b.add(size, constant(0xFFF)), odd)
    normal = e.b.lshr(e.b.sub(rounded, constant(112 << 23)), constant(13))
    # Below 2^-14: adding 2^-1 shifts the fraction to where float16 keeps it, and the adder rounds it.
    magic = 126 << 23
    shifted = e.b.fadd(e.b.bitcast(size, kind), e.b.bitcast(constant(magic), kind))
    small = e.b.sub(e.b.bitcast(shifted, word), constant(magic))
    infinite = e.b.icmp_unsigned(">", size, constant(0x477FEFFF))
    nan = e.b.icmp_unsigned(">", size, constant(0x7F800000))
    result = e.b.select(e.b.icmp_unsigned("<", size, constant(113 << 23)), small, normal)
    result = e.b.select(infinite, e.b.select(nan, constant(0x7E00), constant(0x7C00)), result)
    return e.b.trunc(e.b.or_(result, sign), vector(SHORT, lanes))


def _load_row(e: Emitter, fmt: int, address: Value, lanes: int) -> Value:
    if fmt == F32:
        return e.load(vector(FLOAT, lanes), address)
    return e.half_to_float(e.load(vector(SHORT, lanes), address))


def write_weigh(module: ir.Module, target: Target, fmt: int) -> Any:
    """The function (weights, values, keys, dim, out): out[i] += sum_j weights[j] * values[j, i]."""

    def write(e: Emitter, weights: Value, values: Value, keys: Value, dim: Value, out: Value) -> None:
        stride = e.b.mul(dim, e.long(itemsize(fmt)))
        start = e.long(0)
        for width, lanes in ((_WIDE, _VECTOR), (_VECTOR, _VECTOR), (1, 1)):
            stop = e.b.and_(dim, e.long(-width))

            def columns(i: Value, _: list[Value], width: int = width, lanes: int = lanes) -> list[Value]:
                places = [e.offset(i, lane) for lane in range(0, width, lanes)]
                sums = [e.load(vector(FLOAT, lanes), e.offset(out, place, 4)) for place in places]

                def key(j: Value, sums: list[Value]) -> list[Value]:
                    weight = e.splat(e.load(FLOAT, e.offset(weights, j, 4)), lanes)
                    row = e.b.add(values, e.b.mul(j, stride))
                    return [
                        e.fma(weight, _load_row(e, fmt, e.offset(row, place, itemsize(fmt)), lanes), total)
                        for place, total in zip(places, sums, strict=True)
                    ]

                for place, total in zip(places, e.loop(e.long(0), keys, 1, sums, key), strict=True):
                    e.store(total, e.offset(out, place, 4))
                return []

            e.loop(start, stop, width, [], columns)
            start = stop

    return function(module, target, f"colibri_weigh_{fmt}", 5, VOID, write)


def write_keep(module: ir.Module, target: Target, fmt: int) -> Any:
    """The function (x, n, out): out = float32[n] in the cache's format."""

    def write(e: Emitter, x: Value, n: Value, out: Value) -> None:
        start = e.long(0)
        for lanes in (_VECTOR, 1):
            stop = e.b.and_(n, e.long(-lanes))

            def columns(i: Value, _: list[Value], lanes: int = lanes) -> list[Value]:
                value = e.load(vector(FLOAT, lanes), e.offset(x, i, 4))
                e.store(value if fmt == F32 else float_to_half(e, value), e.offset(out, i, itemsize(fmt)))
                return []

            e.loop(start, stop, lanes, [], columns)
            start = stop

    return function(module, target, f"colibri_keep_{fmt}", 3, VOID, write)


def _weigh(fmt: int) -> Any:
    @intrinsic
    def weigh(typingctx: Any, weights: Any, values: Any, keys: Any, dim: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.call(write_weigh(builder.module, TARGET, fmt), args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), codegen

    return weigh


def _keep(fmt: int) -> Any:
    @intrinsic
    def keep(typingctx: Any, x: Any, n: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.call(write_keep(builder.module, TARGET, fmt), args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 3), codegen

    return keep


_weigh_f32, _weigh_f16 = _weigh(F32), _weigh(F16)
_keep_f32, _keep_f16 = _keep(F32), _keep(F16)


@kernel("void(int64, int64, int64, int64, int64, int64)")
def weigh_values(fmt, weights, values, keys, dim, out):  # type: ignore[no-untyped-def]
    """`weigh`, compiled."""
    if fmt == F16:
        _weigh_f16(weights, values, keys, dim, out)
    else:
        _weigh_f32(weights, values, keys, dim, out)


@kernel("void(int64, int64, int64, int64)")
def keep_values(fmt, x, n, out):  # type: ignore[no-untyped-def]
    """`keep_row`, compiled."""
    if fmt == F16:
        _keep_f16(x, n, out)
    else:
        _keep_f32(x, n, out)


@njit(cache=True, nogil=True)
def weigh(fmt: int, weights: int, values: int, keys: int, dim: int, out: int) -> None:
    """out[i] += sum_j weights[j] * values[j, i]: float32 weights, `fmt` values [keys, dim], float32 out [dim]."""
    weigh_values(fmt, weights, values, keys, dim, out)


@njit(cache=True, nogil=True)
def keep_row(fmt: int, x: int, n: int, out: int) -> None:
    """Write float32[n] to a row of the cache."""
    keep_values(fmt, x, n, out)
