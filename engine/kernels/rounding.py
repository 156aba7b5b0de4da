"""Rounding float32 weights to int4 in groups, for `packing`: the two loops that numpy is slow at."""

from __future__ import annotations

from numba import njit

from .formats import GROUP
from .ir import BYTE, FLOAT, ROUND, VOID, WORD, Emitter, Value, function, vector
from .isa import TARGET
from .symbols import emitted, kernel


def write_group_peaks(e: Emitter, w: Value, groups: Value, columns: Value, peaks: Value) -> None:
    """The body of `group_peaks`."""
    b, words = e.b, vector(WORD, GROUP)

    def group(index: Value, _: list[Value]) -> list[Value]:
        start = e.offset(w, b.mul(index, columns), 4)

        def chunk(column: Value, largest: list[Value]) -> list[Value]:
            bits = e.load(words, e.offset(start, column, 4))
            # Rotated left, floats order by magnitude, then by sign.
            key = b.or_(b.shl(bits, e.constant(words, 1)), b.lshr(bits, e.constant(words, 31)))
            found = e.call(f"llvm.vector.reduce.umax.v{GROUP}i32", WORD, [key])
            return [b.select(b.icmp_unsigned(">", found, largest[0]), found, largest[0])]

        (largest,) = e.loop(e.long(0), columns, GROUP, [e.constant(WORD, 0)], chunk)
        one, rest = e.constant(WORD, 1), e.constant(WORD, 31)
        e.store(b.or_(b.lshr(largest, one), b.shl(largest, rest)), e.offset(peaks, index, 4))
        return []

    e.loop(e.long(0), groups, 1, [], group)


def write_round_groups(
    e: Emitter, w: Value, groups: Value, columns: Value, scales: Value, candidates: Value, q: Value, chosen: Value
) -> None:
    """The body of `round_groups`."""
    b, floats = e.b, vector(FLOAT, GROUP)
    zero, one = e.constant(FLOAT, 0.0), e.constant(FLOAT, 1.0)

    def scale_of(number: Value, index: Value) -> Value:
        return e.load(FLOAT, e.offset(e.offset(scales, b.mul(number, groups), 4), index, 4))

    def rounded(exact: Value, scale: Value) -> Value:
        inverse = b.select(b.fcmp_ordered("==", scale, zero), zero, b.fdiv(one, scale))
        value = b.fmul(exact, e.splat(inverse, GROUP))
        for relation, limit in ((">", 7.0), ("<", -8.0)):
            bound = e.constant(floats, limit)
            value = b.select(b.fcmp_ordered(relation, value, bound), bound, value)
        shift = e.constant(floats, ROUND)
        return b.fsub(b.fadd(value, shift), shift)

    def group(index: Value, _: list[Value]) -> list[Value]:
        first = b.mul(index, columns)
        start = e.offset(w, first, 4)

        def candidate(number: Value, best: list[Value]) -> list[Value]:
            scale = scale_of(number, index)

            def chunk(column: Value, sums: list[Value]) -> list[Value]:
                exact = e.load(floats, e.offset(start, column, 4))
                miss = b.fsub(b.fmul(rounded(exact, scale), e.splat(scale, GROUP)), exact)
                return [b.fadd(sums[0], b.fmul(miss, miss))]

            (sums,) = e.loop(e.long(0), columns, GROUP, [e.constant(floats, 0.0)], chunk)
            error = e.sum_lanes(sums)
            better = b.fcmp_ordered("<", error, best[0])
            return [b.select(better, value, old) for value, old in zip([error, number], best, strict=True)]

        _, number = e.loop(e.long(0), candidates, 1, [e.constant(FLOAT, float("inf")), e.long(0)], candidate)
        scale = scale_of(number, index)

        def write(column: Value, _: list[Value]) -> list[Value]:
            value = rounded(e.load(floats, e.offset(start, column, 4)), scale)
            integers = b.trunc(b.fptosi(value, vector(WORD, GROUP)), vector(BYTE, GROUP))
            e.store(integers, b.add(q, b.add(first, column)))
            return []

        e.loop(e.long(0), columns, GROUP, [], write)
        e.store(b.trunc(number, BYTE), b.add(chosen, index))
        return []

    e.loop(e.long(0), groups, 1, [], group)


GROUP_PEAKS = "void(int64, int64, int64, int64)"
ROUND_GROUPS = "void(int64, int64, int64, int64, int64, int64, int64)"
_emitted_peaks = emitted(
    GROUP_PEAKS, lambda module: function(module, TARGET, "colibri_peaks", 4, VOID, write_group_peaks)
)
_emitted_round = emitted(
    ROUND_GROUPS, lambda module: function(module, TARGET, "colibri_round", 7, VOID, write_round_groups)
)


@kernel(GROUP_PEAKS)
def _group_peaks(w: int, groups: int, columns: int, peaks: int) -> None:
    _emitted_peaks(w, groups, columns, peaks)


@kernel(ROUND_GROUPS)
def _round_groups(w: int, groups: int, columns: int, scales: int, candidates: int, q: int, chosen: int) -> None:
    _emitted_round(w, groups, columns, scales, candidates, q, chosen)


@njit(cache=True, nogil=True)
def group_peaks(w: int, groups: int, columns: int, peaks: int) -> None:
    """peaks[g] = the value of largest magnitude in float32 w[g][columns], with its sign; NaN if there is one.

    columns: a multiple of 32.
    """
    _group_peaks(w, groups, columns, peaks)


@njit(cache=True, nogil=True)
def round_groups(w: int, groups: int, columns: int, scales: int, candidates: int, q: int, chosen: int) -> None:
    """Round float32 w[groups][columns] to int8 q[groups][columns] in -8..7 by the best of scales[candidates][groups].

    columns: a multiple of 32. The best leaves the smallest sum of squared errors, the first of equal ones; its number
    goes to uint8 chosen[g].
    """
    _round_groups(w, groups, columns, scales, candidates, q, chosen)
