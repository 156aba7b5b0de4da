"""Weight formats the kernels read, and the bytes they take.

Float formats are row-major [N, K], exactly as in hub files. Packed formats hold a matrix in blocks of 16 rows, each
block one unbroken stream of 64-byte vectors ("R16K4": one vector = 16 rows x 4 consecutive columns), so that one
4-way dot instruction advances 16 rows and the hardware prefetcher never restarts:

I8R block  [16 f32 row scales][for every 4 columns: 64 B of int8 + 128]; K is padded to a multiple of 32.
I4G block  for every 64 columns a unit [2 x 16 f16 scales][4 vectors: columns 0..31][4 vectors: columns 32..63];
           a vector covers 8 columns, low nibbles k..k+3, high nibbles k+4..k+7, stored as int4 + 8; a scale
           serves a row and 32 columns; K is padded to a multiple of 64.

Padding is the stored zero (128 or 8) with scale 0 where a whole group is padding: it contributes exactly 0.
"""

from __future__ import annotations

F32 = 0
F16 = 1
BF16 = 2
I8R = 3
I4G = 4

ROWS = 16
"""Rows of a block, in every format."""

GROUP = 32
"""Columns that share an activation scale, and in I4G a weight scale."""

LAYOUT = {F32: "f32-rows-1", F16: "f16-rows-1", BF16: "bf16-rows-1", I8R: "i8r-r16k4-1", I4G: "i4g-r16k4-1"}
"""Name and version of each byte layout, for a container's metadata."""

I8R_SCALES = 4 * ROWS
I4G_UNIT = 576
"""Bytes of 64 columns of an I4G block: 64 B of scales, 8 vectors of 64 B."""


def itemsize(fmt: int) -> int:
    """Bytes of one element of a float format."""
    return 4 if fmt == F32 else 2


def padded(fmt: int, k: int) -> int:
    """Columns stored for a row of `k`: packed formats round up to whole groups (I8R) or units (I4G)."""
    if fmt == I8R:
        return -(-k // GROUP) * GROUP
    if fmt == I4G:
        return -(-k // 64) * 64
    return k


def block_bytes(fmt: int, k: int) -> int:
    """Bytes of one block of 16 rows of `k` columns: the distance from one block's address to the next."""
    if fmt == I8R:
        return I8R_SCALES + ROWS * padded(fmt, k)
    if fmt == I4G:
        return padded(fmt, k) // 64 * I4G_UNIT
    return ROWS * k * itemsize(fmt)


def matrix_bytes(fmt: int, n: int, k: int) -> int:
    """Bytes of a matrix of `n` rows: whole blocks in packed formats, n * k elements in float formats."""
    if fmt in (I8R, I4G):
        return -(-n // ROWS) * block_bytes(fmt, k)
    return n * k * itemsize(fmt)


Q8_GROUP = 48
"""Bytes of a group of 32 columns of a q8 record, the activations packed formats are multiplied with (`quantize`)."""

Q8_SCALE = 32
Q8_SUM8 = 36
Q8_SUM128 = 40
"""Where in a group its float32 scale, -8 * sum(q) and -128 * sum(q) lie."""
