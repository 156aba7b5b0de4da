"""Elementwise activations over address ranges."""

from __future__ import annotations

import math

from numba import njit, types

from .addresses import load_f32, store_f32


@njit(cache=True, nogil=True)
def exp32(x: float) -> float:
    """exp(x) in float32."""
    return types.float32(math.exp(x))


@njit(cache=True, nogil=True, error_model="numpy")
def silu_mul(gate: int, up: int, n: int, out: int) -> None:
    """out = up * gate / (1 + exp(-gate)) over float32[n]; `out` may be `gate` or `up`."""
    for i in range(n):
        g = load_f32(gate + i * 4)
        store_f32(out + i * 4, load_f32(up + i * 4) * g / (1 + exp32(-g)))


@njit(cache=True, nogil=True)
def exp_sub_sum(x: int, n: int, m: float) -> float:
    """x = exp(x - m) in place over float32[n]; returns the sum."""
    total = types.float32(0)
    for i in range(n):
        value = exp32(load_f32(x + i * 4) - m)
        store_f32(x + i * 4, value)
        total += value
    return total
