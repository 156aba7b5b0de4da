"""Rounding float32 weights to int4 in groups of 32, for `packing`: the two loops that numpy is slow at."""

from __future__ import annotations

from numba import njit

from .formats import GROUP
from .ir import BYTE, FLOAT, ROUND, VOID, WORD, Emitter, Value, function, vector
from .isa import TARGET
from .symbols import emitted, kernel


def write_group_peaks(e: Emitter, w: Value, groups: Value, peaks: Value) -> None:
    """The body of `group_peaks`."""
    b, words = e.b, vector(WORD, GROUP)

    def group(index: Value, _: list[Value]) -> list[Value]:
        bits = e.load(words, e.offset(w, index, 4 * GROUP))
        # Rotated left, floats order by magnitude, then by sign.
        key = b.or_(b.shl(bits, e.constant(words, 1)), b.lshr(bits, e.constant(words, 31)))
        largest = e.call(f"llvm.vector.reduce.umax.v{GROUP}i32", WORD, [key])
        one, rest = e.constant(WORD, 1), e.constant(WORD, 31)
        e.store(b.or_(b.lshr(largest, one), b.shl(largest, rest)), e.offset(peaks, index, 4))
        return []

    e.loop(e.long(0), groups, 1, [], group)


def write_round_groups(
    e: Emitter, w: Value, groups: Value, scales: Value, candidates: Value, q: Value, chosen: Value
) -> None:
    """The body of `round_groups`."""
    b, floats = e.b, vector(FLOAT, GROUP)
    zero, one = e.constant(FLOAT, 0.0), e.constant(FLOAT, 1.0)

    def group(index: Value, _: list[Value]) -> list[Value]:
        exact = e.load(floats, e.offset(w, index, 4 * GROUP))

        def candidate(number: Value, best: list[Value]) -> list[Value]:
            at = e.offset(e.offset(scales, e.b.mul(number, groups), 4), index, 4)
            scale = e.load(FLOAT, at)
            inverse = b.select(b.fcmp_ordered("==", scale, zero), zero, b.fdiv(one, scale))
            value = b.fmul(exact, e.splat(inverse, GROUP))
            for relation, limit in ((">", 7.0), ("<", -8.0)):
                bound = e.constant(floats, limit)
                value = b.select(b.fcmp_ordered(relation, value, bound), bound, value)
            shift = e.constant(floats, ROUND)
            rounded = b.fsub(b.fadd(value, shift), shift)
            miss = b.fsub(b.fmul(rounded, e.splat(scale, GROUP)), exact)
            error = e.sum_lanes(b.fmul(miss, miss))
            better = b.fcmp_ordered("<", error, best[0])
            new = [error, number, rounded]
            return [b.select(better, value, old) for value, old in zip(new, best, strict=True)]

        start = [e.constant(FLOAT, float("inf")), e.long(0), e.constant(floats, 0.0)]
        _, number, rounded = e.loop(e.long(0), candidates, 1, start, candidate)
        integers = b.trunc(b.fptosi(rounded, vector(WORD, GROUP)), vector(BYTE, GROUP))
        e.store(integers, e.offset(q, index, GROUP))
        e.store(b.trunc(number, BYTE), b.add(chosen, index))
        return []

    e.loop(e.long(0), groups, 1, [], group)


GROUP_PEAKS = "void(int64, int64, int64)"
ROUND_GROUPS = "void(int64, int64, int64, int64, int64, int64)"
_emitted_peaks = emitted(GROUP_PEAKS, lambda module: function(module, TARGET, "peaks", 3, VOID, write_group_peaks))
_emitted_round = emitted(ROUND_GROUPS, lambda module: function(module, TARGET, "round", 6, VOID, write_round_groups))


@kernel(GROUP_PEAKS)
def _group_peaks(w: int, groups: int, peaks: int) -> None:
    _emitted_peaks(w, groups, peaks)


@kernel(ROUND_GROUPS)
def _round_groups(w: int, groups: int, scales: int, candidates: int, q: int, chosen: int) -> None:
    _emitted_round(w, groups, scales, candidates, q, chosen)


@njit(cache=True, nogil=True)
def group_peaks(w: int, groups: int, peaks: int) -> None:
    """peaks[g] = the value of largest magnitude in float32 w[g][32], with its sign; NaN if there is one."""
    _group_peaks(w, groups, peaks)


@njit(cache=True, nogil=True)
def round_groups(w: int, groups: int, scales: int, candidates: int, q: int, chosen: int) -> None:
    """Round float32 w[groups][32] to int8 q[groups][32] in -8..7 by the best of the scales[candidates][groups].

    The best leaves the smallest sum of squared errors, the first of equal ones; its number goes to uint8 chosen[g].
    """
    _round_groups(w, groups, scales, candidates, q, chosen)
