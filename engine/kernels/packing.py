"""Quantising weights and laying them out in blocks of 16 rows (numpy; the layouts are in `formats`).

`quantize_*` turns float32 into integers and scales, `pack_*` only moves integers, so that weights another program
quantised can be rearranged without a second rounding. Nothing here runs while a model answers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from .formats import I4G_PAIR, I4G_SCALES, I8R, I8R_SCALES, INT4, ROWS, block_bytes, is_packed, padded, unit_shift
from .rounding import group_peaks, round_groups

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]
Halves = npt.NDArray[np.float16]

CHUNK = 1 << 17
"""Elements quantised at a time: the temporaries stay in the second-level cache."""


DIVISORS = (8.0, 8.5, 7.25)
"""An int4 group's scale is its value of largest magnitude over minus one of these, whichever rounds best."""

WHOLE_DIVISORS = (8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
"""The same for weights that were rounded to 4 bits before: one of these finds the old scale, and nothing is lost."""


def _check_finite(peaks: Floats) -> None:
    if not np.isfinite(peaks).all():
        raise EngineError("the weights hold NaN or infinite values and cannot be quantised; the file is damaged")


def quantize_i8r(w: Floats) -> tuple[Int8, Floats]:
    """Round float32 [n, k] to int8 [n, k] with one float32 scale a row: s = max(absmax, 1e-12)/127, q = round(w/s).

    Raises EngineError if a weight is not finite.
    """
    peaks = np.maximum(w.max(axis=1), -w.min(axis=1))
    _check_finite(peaks)
    scales = np.divide(np.maximum(peaks, np.float32(1e-12)), np.float32(127), dtype=np.float32)
    q = np.empty(w.shape, np.int8)
    step = max(1, CHUNK // w.shape[1])
    for row in range(0, len(w), step):
        part = w[row : row + step] / scales[row : row + step, None]
        q[row : row + step] = np.rint(part, out=part)
    return q, scales


def quantize_int4(w: Floats, group: int, divisors: tuple[float, ...] = DIVISORS) -> tuple[Int8, Halves]:
    """Round float32 [n, k] to int4 -8..7 (in int8 [n, k]) with a float16 scale for `group` columns [n, ceil(k/group)].

    group: 32, 64 or 128. The value of largest magnitude keeps its sign and becomes about -8, so that all 16 levels are
    used (as in Q4_0). Raises EngineError if a weight is not finite.
    """
    n, k = w.shape
    count = -(-k // group)
    whole: Floats = np.ascontiguousarray(w, np.float32)
    if k % group:
        whole = np.pad(whole, ((0, 0), (0, count * group - k)))
    peaks = np.empty(n * count, np.float32)
    group_peaks(whole.ctypes.data, len(peaks), group, peaks.ctypes.data)
    _check_finite(peaks)
    limit = np.float32(np.finfo(np.float16).max)
    wanted = np.clip(peaks / np.array(divisors, np.float32)[:, None] * np.float32(-1), -limit, limit)
    halves = wanted.astype(np.float16)
    scales = halves.astype(np.float32)
    q = np.empty((n, count * group), np.int8)
    chosen = np.empty(len(peaks), np.uint8)
    round_groups(
        whole.ctypes.data, len(peaks), group, scales.ctypes.data, len(divisors), q.ctypes.data, chosen.ctypes.data
    )
    best = np.take_along_axis(halves, chosen[None].astype(np.intp), axis=0)
    return q[:, :k], best.reshape(n, count)


def _blocks_of_words(q: Int8, columns: int) -> npt.NDArray[np.uint32]:
    """int8 [n, k] -> [blocks, columns/4, 16] words of 4 columns, rows and columns padded with 0."""
    n, k = q.shape
    blocks = -(-n // ROWS)
    whole: Int8 = np.ascontiguousarray(q)
    if (blocks * ROWS, columns) != (n, k):
        whole = np.zeros((blocks * ROWS, columns), np.int8)
        whole[:n, :k] = q
    words = whole.view(np.uint32).reshape(blocks, ROWS, columns // 4)
    return np.ascontiguousarray(words.swapaxes(1, 2))


def pack_i8r(q: Int8, scales: Floats) -> Bytes:
    """Lay out int8 [n, k] and float32 row scales [n] as I8R blocks: uint8 [ceil(n/16), block bytes]."""
    n, k = q.shape
    words = _blocks_of_words(q, padded(I8R, k))
    out = np.empty((len(words), block_bytes(I8R, k)), np.uint8)
    rows = np.zeros(len(words) * ROWS, np.float32)
    rows[:n] = scales
    out[:, :I8R_SCALES] = rows.view(np.uint8).reshape(len(words), I8R_SCALES)
    np.bitwise_xor(words.view(np.uint8).reshape(len(words), -1), 128, out=out[:, I8R_SCALES:])
    return out


def pack_int4(fmt: int, q: Int8, scales: npt.NDArray[np.floating]) -> Bytes:
    """Lay out int4 values -8..7 [n, k] and scales [n, ceil(k/group)] as blocks of an int4 format: uint8 [ceil(n/16),
    block bytes].

    Scales are stored as float16; those of another program are kept exactly when float16 can hold them.
    """
    n, k = q.shape
    units, unit_pairs = _units(fmt, k)
    words = _blocks_of_words(q, units * unit_pairs * 64)
    blocks = len(words)
    words ^= np.uint32(0x08080808)  # two's complement nibbles to q + 8: the sign bit turns
    words &= np.uint32(0x0F0F0F0F)
    out = np.empty((blocks, units, I4G_SCALES + unit_pairs * I4G_PAIR), np.uint8)
    halves = np.zeros((blocks * ROWS, units * 2), np.float16)
    halves[:n, : scales.shape[1]] = scales
    by_unit = halves.reshape(blocks, ROWS, units, 2).transpose(0, 2, 3, 1)
    out[:, :, :I4G_SCALES] = np.ascontiguousarray(by_unit).view(np.uint8).reshape(blocks, units, I4G_SCALES)
    pairs = words.reshape(blocks, units, unit_pairs * 8, 2, ROWS)
    nibbles = pairs[:, :, :, 0] | (pairs[:, :, :, 1] << np.uint32(4))
    out[:, :, I4G_SCALES:] = nibbles.view(np.uint8).reshape(blocks, units, unit_pairs * I4G_PAIR)
    return np.ascontiguousarray(out.reshape(blocks, -1)[:, : block_bytes(fmt, k)])


def _units(fmt: int, k: int) -> tuple[int, int]:
    """Units of a row of an int4 format, the last one counted as whole, and 64s of columns in one."""
    unit_pairs = 1 << unit_shift(fmt)
    return -(-padded(fmt, k) // (64 * unit_pairs)), unit_pairs


def pack(fmt: int, w: Floats, divisors: tuple[float, ...] = DIVISORS) -> Bytes:
    """Quantise float32 [n, k] and lay it out as blocks of a packed format: uint8 [ceil(n/16), block bytes].

    divisors: of the scales that are tried for a group of int4.
    """
    if fmt == I8R:
        return pack_i8r(*quantize_i8r(w))
    for group, int4 in INT4.items():
        if fmt == int4:
            return pack_int4(fmt, *quantize_int4(w, group, divisors))
    raise ValueError(f"format {fmt} is not packed")


def unpack(fmt: int, blocks: Bytes, n: int, k: int) -> Floats:
    """The float32 [n, k] that blocks of a packed format stand for."""
    if not is_packed(fmt):
        raise ValueError(f"format {fmt} is not packed")
    count = -(-n // ROWS)
    blocks = np.ascontiguousarray(blocks).reshape(count, block_bytes(fmt, k))
    if fmt == I8R:
        row_scales = np.ascontiguousarray(blocks[:, :I8R_SCALES]).view(np.float32).reshape(-1, 1)
        stored = blocks[:, I8R_SCALES:].reshape(count, -1, ROWS, 4).transpose(0, 2, 1, 3)
        values = stored.reshape(count * ROWS, -1).astype(np.float32) - np.float32(128)
        return (values * row_scales)[:n, :k]
    units, unit_pairs = _units(fmt, k)
    size = units * (I4G_SCALES + unit_pairs * I4G_PAIR)
    if blocks.shape[1] < size:
        blocks = np.pad(blocks, ((0, 0), (0, size - blocks.shape[1])))
    whole = blocks.reshape(count, units, -1)
    halves = np.ascontiguousarray(whole[:, :, :I4G_SCALES]).view(np.float16).reshape(count, -1, ROWS)
    scales = halves.transpose(0, 2, 1).reshape(count * ROWS, -1, 1).astype(np.float32)
    packed = whole[:, :, I4G_SCALES:].reshape(count, -1, 8, ROWS, 4)
    stored = np.stack((packed & 15, packed >> 4), axis=3).transpose(0, 4, 1, 2, 3, 5)
    values = stored.reshape(count * ROWS, -1, 32 * unit_pairs).astype(np.float32) - np.float32(8)
    return (values * scales).reshape(count * ROWS, -1)[:n, :k]
