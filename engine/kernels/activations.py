"""exp and what is made of it, over address ranges: gates, the softmax's sum, tanh.

exp is a polynomial of degree 7 on [-ln 2 / 2, ln 2 / 2] and a power of two (the coefficients of Cephes' expf), relative
error below 2e-7. An element gets the same bits wherever it stands in the range.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from .ir import FLOAT, LONG, ROUND, VOID, WORD, Emitter, Value, function, lanes_of, vector
from .isa import TARGET
from .pointers import f32
from .symbols import emitted, kernel

LANES = 16

LOWEST = -87.3
"""Below, exp is 0: its value would not be a normal float32."""

HIGHEST = 88.3
"""Above, exp is that of HIGHEST: 2e38, short of infinity."""

LOG2_E = 1.44269504088896341
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440e-4
COEFFICIENTS = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
)  # fmt: skip

GELU_SLOPE = 2 * (2 / math.pi) ** 0.5
GELU_CUBE = GELU_SLOPE * 0.044715
"""0.5 (1 + tanh(y)) is 1 / (1 + exp(-2 y)), with y = sqrt(2 / pi) (x + 0.044715 x^3) in the gelu of Hendrycks & Gimpel
2016."""


def exp(e: Emitter, x: Value) -> Value:
    """exp of a float32 or a vector of them; NaN stays NaN."""
    b, kind = e.b, x.type
    words = vector(WORD, lanes_of(x))

    def constant(value: float) -> Value:
        return e.constant(kind, value)

    low = b.fcmp_ordered("<", x, constant(LOWEST))
    x = b.select(b.fcmp_ordered(">", x, constant(HIGHEST)), constant(HIGHEST), x)
    x = b.select(low, constant(LOWEST), x)
    shifted = b.fadd(b.fmul(x, constant(LOG2_E)), constant(ROUND))
    n = b.fsub(shifted, constant(ROUND))
    r = e.fma(n, constant(-LN2_HIGH), x)
    r = e.fma(n, constant(-LN2_LOW), r)
    p = constant(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        p = e.fma(p, r, constant(coefficient))
    value = e.fma(p, b.fmul(r, r), b.fadd(r, constant(1.0)))
    # The low mantissa bits of `shifted` are n: moved to the exponent, with its bias, they are 2**n.
    power = b.shl(b.add(b.bitcast(shifted, words), e.constant(words, 127)), e.constant(words, 23))
    return b.select(low, constant(0.0), b.fmul(value, b.bitcast(power, kind)))


def _write_gate(e: Emitter, gate: Value, up: Value, n: Value, out: Value, gelu: bool) -> None:
    """out = up * gate / (1 + exp(-z)), where z is the gate itself or, for gelu, a cubic of it."""

    def elements(index: Value, lanes: int) -> list[Value]:
        kind = vector(FLOAT, lanes)
        g, u = (e.load(kind, e.offset(base, index, 4)) for base in (gate, up))
        z = g
        if gelu:
            square = e.fma(e.b.fmul(g, g), e.constant(kind, GELU_CUBE), e.constant(kind, GELU_SLOPE))
            z = e.b.fmul(g, square)
        below = e.b.fadd(exp(e, e.b.fneg(z)), e.constant(kind, 1.0))
        e.store(e.b.fmul(u, e.b.fdiv(g, below)), e.offset(out, index, 4))
        return []

    whole = e.b.and_(n, e.long(-LANES))
    e.loop(e.long(0), whole, LANES, [], lambda index, _: elements(index, LANES))
    e.loop(whole, n, 1, [], lambda index, _: elements(index, 1))


def write_silu_mul(e: Emitter, gate: Value, up: Value, n: Value, out: Value) -> None:
    """The body of `silu_mul`."""
    _write_gate(e, gate, up, n, out, gelu=False)


def write_gelu_mul(e: Emitter, gate: Value, up: Value, n: Value, out: Value) -> None:
    """The body of `gelu_mul`."""
    _write_gate(e, gate, up, n, out, gelu=True)


def write_exp_sub_sum(e: Emitter, x: Value, n: Value, m: Value) -> Value:
    """The body of `exp_sub_sum`."""

    def elements(index: Value, total: Value) -> list[Value]:
        at, lanes = e.offset(x, index, 4), lanes_of(total)
        value = exp(e, e.b.fsub(e.load(total.type, at), e.splat(m, lanes)))
        e.store(value, at)
        return [e.b.fadd(total, value)]

    whole = e.b.and_(n, e.long(-LANES))
    zero = e.constant(vector(FLOAT, LANES), 0.0)
    (wide,) = e.loop(e.long(0), whole, LANES, [zero], lambda index, carried: elements(index, carried[0]))
    start = e.sum_lanes(wide)
    (total,) = e.loop(whole, n, 1, [start], lambda index, carried: elements(index, carried[0]))
    return total


@intrinsic
def exp32(typingctx: Any, x: Any) -> Any:
    """exp(x) in float32, the same bits as in `exp_sub_sum` and `silu_mul`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return exp(Emitter(builder, TARGET), args[0])

    return types.float32(types.float32), codegen


GATE_MUL = "void(int64, int64, int64, int64)"
EXP_SUB_SUM = "float32(int64, int64, float32)"
_emitted_silu = emitted(GATE_MUL, lambda module: function(module, TARGET, "colibri_silu", 4, VOID, write_silu_mul))
_emitted_gelu = emitted(GATE_MUL, lambda module: function(module, TARGET, "colibri_gelu", 4, VOID, write_gelu_mul))
_emitted_exp = emitted(
    EXP_SUB_SUM,
    lambda module: function(module, TARGET, "colibri_exp_sub_sum", [LONG, LONG, FLOAT], FLOAT, write_exp_sub_sum),
)


@kernel(GATE_MUL)
def _silu_mul(gate: int, up: int, n: int, out: int) -> None:
    _emitted_silu(gate, up, n, out)


@kernel(GATE_MUL)
def _gelu_mul(gate: int, up: int, n: int, out: int) -> None:
    _emitted_gelu(gate, up, n, out)


@kernel(EXP_SUB_SUM)
def _exp_sub_sum(x: int, n: int, m: float) -> float:
    return _emitted_exp(x, n, m)


@njit(cache=True, nogil=True)
def silu_mul(gate: int, up: int, n: int, out: int) -> None:
    """out = up * gate / (1 + exp(-gate)) over float32[n]; `out` may be `gate` or `up`."""
    _silu_mul(gate, up, n, out)


@njit(cache=True, nogil=True)
def gelu_mul(gate: int, up: int, n: int, out: int) -> None:
    """out = up * gelu(gate), the gelu with tanh, over float32[n]; `out` may be `gate` or `up`."""
    _gelu_mul(gate, up, n, out)


@njit(cache=True, nogil=True, error_model="numpy")
def soft_cap(x: int, n: int, limit: float) -> None:
    """x = limit * tanh(x / limit) in place over float32[n]."""
    values, two, most = f32(x), np.float32(2.0 / limit), np.float32(limit)
    for i in range(n):
        values[i] = most - (most + most) / (exp32(values[i] * two) + np.float32(1.0))


@njit(cache=True, nogil=True)
def exp_sub_sum(x: int, n: int, m: float) -> float:
    """x = exp(x - m) in place over float32[n]; returns the float32 sum.

    The sum is taken in 16 partial sums (index modulo 16) up to the last multiple of 16, which are added by halves;
    the last elements follow one by one.
    """
    return _exp_sub_sum(x, n, m)
