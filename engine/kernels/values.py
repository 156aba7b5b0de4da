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


def _tiles(target: Target) -> tuple[int, tuple[int, ...]]:
    """(rows of `out` computed together, columns at a time): as many sums as there are registers for them."""
    wide = _WIDE if target.vector == 512 else _VECTOR
    return target.sums * target.vector // 32 // wide, (wide, _VECTOR, 1) if wide > _VECTOR else (_VECTOR, 1)


def write_weigh(module: ir.Module, target: Target, fmt: int) -> Any:
    """The function (weights, weights_step, values, values_step, keys, dim, out, heads); see `weigh_heads`."""
    size = itemsize(fmt)

    def write(
        e: Emitter, weights: Value, weights_step: Value, values: Value, values_step: Value, keys: Value, dim: Value,
        out: Value, heads: Value,
    ) -> None:  # fmt: skip
        def some_heads(first: Value, together: int, widths: tuple[int, ...]) -> list[Value]:
            heads_at = [e.offset(first, i) for i in range(together)]
            weight_rows = [e.b.add(weights, e.b.mul(head, weights_step)) for head in heads_at]
            out_rows = [e.b.add(out, e.b.mul(e.b.mul(head, dim), e.long(4))) for head in heads_at]
            start = e.long(0)
            for width in widths:
                lanes = min(width, _VECTOR)
                stop = e.b.and_(dim, e.long(-width))

                def columns(i: Value, _: list[Value], width: int = width, lanes: int = lanes) -> list[Value]:
                    places = [e.offset(i, lane) for lane in range(0, width, lanes)]
                    targets = [e.offset(row, place, 4) for row in out_rows for place in places]

                    def key(j: Value, sums: list[Value]) -> list[Value]:
                        row = e.b.add(values, e.b.mul(j, values_step))
                        numbers = [_load_row(e, fmt, e.offset(row, place, size), lanes) for place in places]
                        shares = [e.splat(e.load(FLOAT, e.offset(at, j, 4)), lanes) for at in weight_rows]
                        products = [(share, number) for share in shares for number in numbers]
                        return [e.fma(*pair, total) for pair, total in zip(products, sums, strict=True)]

                    sums = [e.load(vector(FLOAT, lanes), at) for at in targets]
                    for at, total in zip(targets, e.loop(e.long(0), keys, 1, sums, key), strict=True):
                        e.store(total, at)
                    return []

                e.loop(start, stop, width, [], columns)
                start = stop
            return []

        together, widths = _tiles(target)
        whole = e.b.and_(heads, e.long(-together))
        e.loop(e.long(0), whole, together, [], lambda first, _: some_heads(first, together, widths))
        e.loop(whole, heads, 1, [], lambda head, _: some_heads(head, 1, (_WIDE, _VECTOR, 1)))

    return function(module, target, f"colibri_weigh_{fmt}", 8, VOID, write)


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
    def weigh(
        typingctx: Any, weights: Any, weights_step: Any, values: Any, values_step: Any, keys: Any, dim: Any, out: Any,
        heads: Any,
    ) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.call(write_weigh(builder.module, TARGET, fmt), args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), codegen

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


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def weigh_values(  # type: ignore[no-untyped-def]
    fmt, weights, weights_step, values, values_step, keys, dim, out, heads
):
    """`weigh_heads`, compiled."""
    if fmt == F16:
        _weigh_f16(weights, weights_step, values, values_step, keys, dim, out, heads)
    else:
        _weigh_f32(weights, weights_step, values, values_step, keys, dim, out, heads)


@kernel("void(int64, int64, int64, int64)")
def keep_values(fmt, x, n, out):  # type: ignore[no-untyped-def]
    """`keep_row`, compiled."""
    if fmt == F16:
        _keep_f16(x, n, out)
    else:
        _keep_f32(x, n, out)


@njit(cache=True, nogil=True)
def cache_itemsize(fmt: int) -> int:
    """Bytes of a number in the cache."""
    return 4 if fmt == F32 else 2


@njit(cache=True, nogil=True)
def weigh(fmt: int, weights: int, values: int, keys: int, dim: int, out: int) -> None:
    """out[i] += sum_j weights[j] * values[j, i]: float32 weights, `fmt` values [keys, dim], float32 out [dim]."""
    weigh_values(fmt, weights, 0, values, dim * cache_itemsize(fmt), keys, dim, out, 1)


@njit(cache=True, nogil=True)
def weigh_heads(
    fmt: int, weights: int, weights_step: int, values: int, values_step: int, keys: int, dim: int, out: int, heads: int
) -> None:
    """out[h, i] += sum_j weights[h, j] * values[j, i] for several heads that share the values.

    Float32 weights, `weights_step` bytes from a head's to the next; `fmt` values, `values_step` bytes a key, of which
    the first `dim` numbers count; float32 out [heads, dim]. A head's sums do not depend on how many there are.
    """
    weigh_values(fmt, weights, weights_step, values, values_step, keys, dim, out, heads)


@njit(cache=True, nogil=True)
def keep_row(fmt: int, x: int, n: int, out: int) -> None:
    """Write float32[n] to a row of the cache."""
    keep_values(fmt, x, n, out)
