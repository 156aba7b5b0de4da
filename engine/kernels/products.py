"""Products of a block of 16 weight rows with one or more activation rows."""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, register_jitable

from . import formats
from .addresses import load_f32, load_i32, load_i64, load_u8, load_u16, store_f32
from .formats import BF16, F32, I4G, I8R, ROWS
from .quantize import Q8_GROUP

block_bytes = register_jitable(formats.block_bytes)
matrix_bytes = register_jitable(formats.matrix_bytes)
register_jitable(formats.itemsize)
register_jitable(formats.padded)


@intrinsic
def bits_f32(typingctx, bits):
    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), codegen


@njit(cache=True, nogil=True)
def half(h: int) -> float:
    sign = (h & 0x8000) << 16
    magnitude = h & 0x7FFF
    if magnitude >= 0x7C00:
        return bits_f32(sign | 0x7F800000 | (magnitude & 0x3FF) << 13)
    return bits_f32(sign | 0x77800000) * 0.0 + (-1.0 if sign else 1.0) * bits_f32(magnitude << 13) * 2.0**112


@njit(cache=True, nogil=True)
def weight(fmt: int, w: int, row: int, col: int, k: int) -> float:
    if fmt == F32:
        return load_f32(w + (row * k + col) * 4)
    if fmt == BF16:
        return bits_f32(load_u16(w + (row * k + col) * 2) << 16)
    if fmt == I8R:
        scale = load_f32(w + row * 4)
        return scale * (load_u8(w + 64 + col // 4 * 64 + row * 4 + col % 4) - 128)
    if fmt == I4G:
        unit = w + col // 64 * 576
        group = col % 64 // 32
        scale = half(load_u16(unit + group * 32 + row * 2))
        byte = load_u8(unit + 64 + col % 64 // 8 * 64 + row * 4 + col % 4)
        return scale * ((byte >> (4 if col % 8 >= 4 else 0) & 15) - 8)
    return half(load_u16(w + (row * k + col) * 2))


@njit(cache=True, nogil=True)
def product16(fmt: int, w: int, rows: int, k: int, xs: int, s: int, out: int) -> None:
    """out[j][r] = sum_k W[r, k] * x_j[k] for a block of up to 16 rows and `s` positions."""
    for j in range(s):
        x = load_i64(xs + j * 8)
        for r in range(ROWS):
            total = types.float32(0)
            if r < rows or fmt >= I8R:
                for c in range(k):
                    if fmt >= I8R:
                        group = x + c // 32 * Q8_GROUP
                        byte = load_u8(group + c % 32)
                        value = load_f32(group + 32) * ((byte ^ 128) - 128)
                    else:
                        value = load_f32(x + c * 4)
                    total += types.float32(weight(fmt, w, r, c, k) * value)
            store_f32(out + (j * ROWS + r) * 4, total)


@njit(cache=True, nogil=True)
def embed_row(fmt: int, w: int, row: int, k: int, out: int) -> None:
    """Write float32[k] of row `row` of the matrix at `w`."""
    block = w + row // ROWS * block_bytes(fmt, k)
    for c in range(k):
        store_f32(out + c * 4, weight(fmt, block, row % ROWS, c, k))
