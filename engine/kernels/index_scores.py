"""The numbers behind sparse attention: an indexer's scores of a tile of keys, and the choice of the best of many."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .ir import FLOAT, VOID, Emitter, Value, function, vector
from .isa import TARGET, Target
from .pointers import i32, i64, u32
from .records import KEY_TILE
from .symbols import kernel

LANES = 16
_SIGN = 0x80000000
_ALL = 0xFFFFFFFF


def write_index_scores(module: ir.Module, target: Target) -> Any:
    """The function (products, weights, heads, scale, out); see `index_scores`."""
    places = range(0, KEY_TILE, LANES)

    def write(e: Emitter, products: Value, weights: Value, heads: Value, scale: Value, out: Value) -> None:
        kind = vector(FLOAT, LANES)
        factor = e.splat(e.load(FLOAT, scale), LANES)
        zero = e.constant(kind, 0.0)

        def head(h: Value, totals: list[Value]) -> list[Value]:
            row = e.offset(products, h, 4 * KEY_TILE)
            weight = e.splat(e.load(FLOAT, e.offset(weights, h, 4)), LANES)
            results = []
            for place, total in zip(places, totals, strict=True):
                product = e.b.fmul(e.load(kind, e.offset(row, place, 4)), factor)
                positive = e.b.select(e.b.fcmp_ordered(">", product, zero), product, zero)
                results.append(e.fma(weight, positive, total))
            return results

        totals = e.loop(e.long(0), heads, 1, [zero] * len(places), head)
        for place, total in zip(places, totals, strict=True):
            e.store(total, e.offset(out, place, 4))

    return function(module, target, "colibri_index_scores", 5, VOID, write)


@intrinsic
def _emit_index_scores(typingctx: Any, products: Any, weights: Any, heads: Any, scale: Any, out: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(write_index_scores(builder.module, TARGET), args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


@kernel("void(int64, int64, int64, int64, int64)")
def _index_scores(products: int, weights: int, heads: int, scale: int, out: int) -> None:
    _emit_index_scores(products, weights, heads, scale, out)


@njit(cache=True, nogil=True)
def index_scores(products: int, weights: int, heads: int, scale: int, out: int) -> None:
    """out[j] = sum_h weights[h] * relu(products[h, j] * scale) for a tile of keys, head after head.

    products: float32 [heads, KEY_TILE]. weights: float32 [heads]. scale: the address of a float32. out: float32
    [KEY_TILE].
    """
    _index_scores(products, weights, heads, scale, out)


@kernel("void(int64, int64, int64, int64, int64)")
def _choose_best(scores: int, n: int, best: int, scratch: int, chosen: int) -> None:
    keys, histogram, out = u32(scores), i64(scratch), i32(chosen)
    for i in range(n):
        bits = types.int64(keys[i])
        keys[i] = bits ^ (_ALL if bits & _SIGN else _SIGN)
    limit, known, wanted = 0, 0, best
    for shift in (24, 16, 8, 0):
        for b in range(256):
            histogram[b] = 0
        for i in range(n):
            key = types.int64(keys[i])
            if key & known == limit:
                histogram[(key >> shift) & 255] += 1
        b = 255
        while histogram[b] < wanted:
            wanted -= histogram[b]
            b -= 1
        limit |= b << shift
        known |= 255 << shift
    place = 0
    for i in range(n):  # `wanted` of those equal to the limit are among the best
        key = types.int64(keys[i])
        if key > limit or (key == limit and wanted > 0):
            if key == limit:
                wanted -= 1
            out[place] = i
            place += 1


@njit(cache=True, nogil=True)
def choose_best(scores: int, n: int, best: int, scratch: int, chosen: int) -> None:
    """Write the numbers of the `best` highest of n float32 scores, ascending, to int32[best]; best < n.

    scratch: int64[256]. Of equal scores the first are chosen. The scores are overwritten by integers in the same order,
    of which the `best`-th is found byte by byte.
    """
    _choose_best(scores, n, best, scratch, chosen)
