"""Weight formats the kernels read, and the bytes they take.

Float formats are row-major [N, K], exactly as in hub files. Packed formats hold a matrix in blocks of 16 rows, each
block one unbroken stream of 64-byte vectors ("R16K4": one vector = 16 rows x 4 consecutive columns), so that one
4-way dot instruction advances 16 rows and the hardware prefetcher never restarts:

I8R block  [16 f32 row scales][for every 4 columns: 64 B of int8 + 128]; K is padded to a multiple of 32.
I4G block  for every 64 columns a unit [2 x 16 f16 scales][4 vectors: columns 0..31][4 vectors: columns 32..63];
           a vector covers 8 columns, low nibbles k..k+3, high nibbles k+4..k+7, stored as int4 + 8; a scale
           serves a row and 32 columns; K is padded to a multiple of 64.

Padding is the stored zero (128 or 8) with scale 0 where a whole group is padding: it contributes exactly 0.

The other formats are those of released checkpoints: row-major, read as they came, multiplied with float32 activations.
A row is a run of units; the first six keep a row's codes together and its scales behind them, so that rows can be
assembled from a file's tensors by copying; the rest are GGUF's, byte for byte:

F8      per 128 columns 128 8-bit floats (e4m3); a float32 scale each
MX4     per 32 columns 16 bytes of two 4-bit floats (e2m1), even columns low; a power of two as a biased exponent each
I4S     per 32 columns 16 bytes of two 4-bit integers + 8, even columns low; a bfloat16 scale each
I4Z32   per 32 columns 16 bytes of two 4-bit integers, even columns low; a float32 scale each, then a zero point each
I4Z128  the same per 128 columns
I8S     per 32 columns 32 int8; one float32 scale for the row
Q8_0, Q4_0, Q5_0, MXFP4 (units of 32 columns), Q4_K, Q5_K, Q6_K (of 256): see `gguf_rows`

Rows of the first six are filled up to whole units, GGUF's always are whole; what lies in a unit beyond the last
column is multiplied with zero.
"""

from __future__ import annotations

F32 = 0
F16 = 1
BF16 = 2
I8R = 3
I4G = 4
F8 = 5
MX4 = 6
I4S = 7
I4Z32 = 8
I4Z128 = 9
Q8_0 = 10
Q4_0 = 11
Q5_0 = 12
MXFP4 = 13
Q4_K = 14
Q5_K = 15
Q6_K = 16
I8S = 17

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


def unit_columns(fmt: int) -> int:
    """Columns of a unit of a row-major format; 1 for float formats, whose columns can be read one by one."""
    if fmt <= BF16:
        return 1
    if fmt in (F8, I4Z128):
        return 128
    if fmt in (Q4_K, Q5_K, Q6_K):
        return 256
    return 32


def unit_bytes(fmt: int) -> int:
    """Bytes of a unit, with its scales if it has its own."""
    if fmt == F8:
        return 132
    if fmt in (MX4, MXFP4):
        return 17
    if fmt in (I4S, Q4_0):
        return 18
    if fmt == I4Z32:
        return 21
    if fmt == I4Z128:
        return 69
    if fmt == Q8_0:
        return 34
    if fmt == Q5_0:
        return 22
    if fmt == Q4_K:
        return 144
    if fmt == Q5_K:
        return 176
    if fmt == Q6_K:
        return 210
    if fmt == I8S:
        return 32
    return itemsize(fmt)


def row_bytes(fmt: int, k: int) -> int:
    """Bytes from one row of a row-major format to the next."""
    columns = unit_columns(fmt)
    return (k + columns - 1) // columns * unit_bytes(fmt) + (4 if fmt == I8S else 0)


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
    return ROWS * row_bytes(fmt, k)


def matrix_bytes(fmt: int, n: int, k: int) -> int:
    """Bytes of a matrix of `n` rows: whole blocks in packed formats, n rows in the others."""
    if fmt in (I8R, I4G):
        return -(-n // ROWS) * block_bytes(fmt, k)
    return n * row_bytes(fmt, k)


Q8_GROUP = 48
"""Bytes of a group of 32 columns of a q8 record, the activations packed formats are multiplied with (`quantize`)."""

Q8_SCALE = 32
Q8_SUM8 = 36
Q8_SUM128 = 40
"""Where in a group its float32 scale, -8 * sum(q) and -128 * sum(q) lie."""
