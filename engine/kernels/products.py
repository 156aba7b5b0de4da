"""Products of a block of 16 weight rows with one or more activation rows.

`product16` is the one matrix product of the engine: a matrix is a run of blocks (`formats`), decode calls it with one
position, prefill with many. **What it computes for a row and a position is bit-identical for every number of
positions**, so that batching and placement never change an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, register_jitable

from . import formats
from .addresses import load_f32, load_u8, load_u16, store_f32
from .decoders import DECODERS
from .formats import (
    BF16,
    F16,
    F32,
    I4G128,
    I4G_PAIR,
    I4G_SCALES,
    I8R,
    I8R_SCALES,
    K_QUANTS,
    PACKED,
    ROWS,
    is_packed,
    unit_columns,
    unit_shift,
)
from .ir import FLOAT, VOID, WORD, Emitter, Value, function
from .isa import TARGET, Target
from .k_tile import k_tile
from .packed_tile import packed_tile
from .row_tile import row_tile, write_row
from .symbols import emitted, kernel

block_bytes = register_jitable(formats.block_bytes)
matrix_bytes = register_jitable(formats.matrix_bytes)
row_bytes = register_jitable(formats.row_bytes)
register_jitable(formats.itemsize)
register_jitable(formats.padded)
register_jitable(formats.is_packed)
register_jitable(formats.unit_shift)
register_jitable(formats.unit_columns)
register_jitable(formats.unit_bytes)

FORMATS = (*DECODERS, *PACKED)
"""All weight formats."""

UNIT_FORMATS = tuple(fmt for fmt in DECODERS if unit_columns(fmt) > 1)
"""Those whose rows are runs of units."""

Writer = Callable[[ir.Module, Target, int], Any]
"""(module, target, fmt) -> a function of that module."""


def tile_positions(target: Target, fmt: int) -> tuple[int, ...]:
    """Tile sizes in positions, largest first: as many as there are registers for their sums."""
    return (8, 4, 1) if target.sums >= 16 and is_packed(fmt) else (4, 1)


def rows_together(target: Target, fmt: int, positions: int) -> int:
    """Rows of a row-major format computed at a time: enough independent sums to hide the latency of an fma, 8 where
    nothing else is done between two of them."""
    most = 8 if fmt <= BF16 else 4
    return max(1, min(most, target.sums // (positions * 512 // target.vector)))


def write_product(module: ir.Module, target: Target, fmt: int) -> Any:
    """The function (w, rows, k, xs, s, out) of one weight format: all positions, in tiles."""

    def tile(positions: int) -> Any:
        def write(e: Emitter, w: Value, rows: Value, k: Value, xs: Value, out: Value) -> None:
            if is_packed(fmt):
                packed_tile(e, fmt, positions, w, k, xs, out)
            elif fmt in K_QUANTS:
                k_tile(e, fmt, positions, w, rows, k, xs, out)
            else:
                row_tile(e, fmt, rows_together(target, fmt, positions), positions, w, rows, k, xs, out)

        return function(module, target, f"colibri_tile_{fmt}_{positions}", 5, VOID, write)

    def write(e: Emitter, w: Value, rows: Value, k: Value, xs: Value, s: Value, out: Value) -> None:
        done = e.long(0)
        for positions in tile_positions(target, fmt):

            def body(j: Value, _: list[Value], positions: int = positions) -> list[Value]:
                e.b.call(tile(positions), [w, rows, k, e.offset(xs, j, 8), e.offset(out, j, 4 * ROWS)])
                return []

            whole = e.b.sub(s, e.b.srem(e.b.sub(s, done), e.long(positions)))
            e.loop(done, whole, positions, [], body)
            done = whole

    return function(module, target, f"colibri_product_{fmt}", 6, VOID, write)


def write_unpack(module: ir.Module, target: Target, fmt: int) -> Any:
    """The function (row, k, out) of one format with units: a row as float32."""

    def write(e: Emitter, row: Value, k: Value, out: Value) -> None:
        write_row(e, fmt, row, k, out)

    return function(module, target, f"colibri_unpack_{fmt}", 3, VOID, write)


def _by_format(module: ir.Module, name: str, formats: Sequence[int], write: Writer, arguments: int) -> Any:
    """The function (fmt, ...) that calls what `write` makes for that format; for others it does nothing."""

    def dispatch(e: Emitter, fmt: Value, *args: Value) -> None:
        after = e.b.append_basic_block("after")
        switch = e.b.switch(fmt, after)
        for number in formats:
            block = e.b.append_basic_block(f"format{number}")
            switch.add_case(e.long(number), block)
            e.b.position_at_end(block)
            e.b.call(write(module, TARGET, number), args)
            e.b.branch(after)
        e.b.position_at_end(after)

    return function(module, TARGET, name, arguments + 1, VOID, dispatch)


_product = emitted(
    "void(int64, int64, int64, int64, int64, int64, int64)",
    lambda module: _by_format(module, "colibri_products", FORMATS, write_product, 6),
)
_unpack = emitted(
    "void(int64, int64, int64, int64)",
    lambda module: _by_format(module, "colibri_unpackers", UNIT_FORMATS, write_unpack, 3),
)


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def _product16(fmt: int, w: int, rows: int, k: int, xs: int, s: int, out: int) -> None:
    _product(fmt, w, rows, k, xs, s, out)


@kernel("void(int64, int64, int64, int64)")
def _unpack_row(fmt: int, row: int, k: int, out: int) -> None:
    _unpack(fmt, row, k, out)


@njit(cache=True, nogil=True)
def product16(fmt: int, w: int, rows: int, k: int, xs: int, s: int, out: int) -> None:
    """out[j][r] = sum_k W[r, k] * x_j[k]: one block of up to 16 rows times `s` positions.

    fmt: weight format. w: address of the block; row-major formats may lie at any address. rows: valid rows, 1..16;
    row-major formats read no others, packed blocks are always whole. k: columns, >= 1. xs: address of int64[s], the
    addresses of the activation rows: of k columns what the format `takes`. out: address of float32[s][16]; only the
    first `rows` entries of a position mean something.
    """
    _product16(fmt, w, rows, k, xs, s, out)


@intrinsic
def _half(typingctx: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(builder, TARGET)
        return e.half_to_float(builder.trunc(args[0], ir.IntType(16)))

    return types.float32(types.int64), codegen


@intrinsic
def _float_of_bits(typingctx: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.trunc(args[0], WORD), FLOAT)

    return types.float32(types.int64), codegen


@njit(cache=True, nogil=True)
def embed_row(fmt: int, w: int, row: int, k: int, out: int) -> None:
    """Write float32[k], row `row` of the matrix at `w`, to `out`."""
    if fmt > I4G128:
        _unpack_row(fmt, w + row * row_bytes(fmt, k), k, out)
        return
    r = row % ROWS
    block = w + row // ROWS * block_bytes(fmt, k)
    line = block + r * k * (4 if fmt == F32 else 2)
    for c in range(k):
        if fmt == I8R:
            stored = load_u8(block + I8R_SCALES + c // 4 * 64 + r * 4 + c % 4)
            value = load_f32(block + r * 4) * types.float32(stored - 128)
        elif is_packed(fmt):
            shift = unit_shift(fmt)
            unit = block + (c // 64 >> shift) * (I4G_SCALES + (I4G_PAIR << shift))
            inside = c - (c // 64 >> shift << shift) * 64
            byte = load_u8(unit + I4G_SCALES + inside // 8 * 64 + r * 4 + c % 4)
            stored = byte >> 4 if c % 8 >= 4 else byte & 15
            scale = _half(load_u16(unit + (inside // 32 >> shift) * 32 + r * 2))
            value = scale * types.float32(stored - 8)
        elif fmt == BF16:
            value = _float_of_bits(load_u16(line + c * 2) << 16)
        elif fmt == F16:
            value = _half(load_u16(line + c * 2))
        else:
            value = load_f32(line + c * 4)
        store_f32(out + c * 4, value)
