"""Activations quantised to int8 in groups of 32 columns: what the packed products multiply with.

A q8 record of k columns is a run of 48-byte groups, K padded to a multiple of 64 columns:

    [32 int8 q][f32 scale][i32 -8 * sum(q)][i32 -128 * sum(q)][4 B unused]

scale = absmax / 127, q = x * (127 / absmax) rounded to nearest even. The two sums are initial values of integer
accumulators: packed weights are stored with an offset of 8 or 128, and starting there takes it off again.
"""

from __future__ import annotations

from numba import njit
from numba.extending import register_jitable

from .addresses import load_f32, store_f32, store_i32, store_u8
from .formats import Q8_GROUP


@register_jitable
def q8_bytes(k: int) -> int:
    """Bytes of the q8 record of `k` columns, a multiple of 32. Align records to 16 bytes, better to 64."""
    return -(-k // 64) * 2 * Q8_GROUP


@njit(cache=True, nogil=True, error_model="numpy")
def quantize_q8(x: int, k: int, q: int) -> None:
    """Write the q8 record of float32[k] at `x` to `q` (q8_bytes(k) bytes)."""
    for group in range(-(-k // 64) * 2):
        first = group * 32
        last = min(k, first + 32)
        peak = 0.0
        for i in range(first, last):
            peak = max(peak, abs(load_f32(x + i * 4)))
        scale = peak / 127 if peak > 1e-30 else 0.0
        total = 0
        to = q + group * Q8_GROUP
        for i in range(first, first + 32):
            value = 0
            if i < last and scale != 0.0:
                value = int(round(load_f32(x + i * 4) / scale))
            store_u8(to + i - first, value)
            total += value
        store_f32(to + 32, scale)
        store_i32(to + 36, -8 * total)
        store_i32(to + 40, -128 * total)
        store_i32(to + 44, 0)
