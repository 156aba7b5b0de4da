"""Weight formats the kernels read, and the bytes they take.

Float formats are row-major [N, K], exactly as in hub files. Packed formats hold a matrix in blocks of 16 rows, each
block one unbroken stream of 64-byte vectors ("R16K4": one vector = 16 rows x 4 consecutive columns), so that one
4-way dot instruction advances 16 rows and the hardware prefetcher never restarts:

I8R block  [16 f32 row scales][for every 4 columns: 64 B of int8 + 128]; K is padded to a multiple of 32.
I4G block  for every 64 columns a unit [2 x 16 f16 scales][4 vectors: columns 0..31][4 vectors: columns 32..63];
           a vector covers 8 columns, low nibbles k..k+3, high nibbles k+4..k+7, stored as int4 + 8; a scale
           serves a row and 32 columns; K is padded to a multiple of 64.
I4G64, I4G128  the same with a scale for 64 or 128 columns: units of 128 or 256 columns, 64 B of scales before their
           16 or 32 vectors. K is padded to a multiple of 64 here too: the last unit may end early.

Padding is the stored zero (128 or 8) with scale 0 where a whole group is padding: it contributes exactly 0.

The other formats are those of released checkpoints: row-major, read as they came.
A row is a run of units; the first six keep a row's codes together and its scales behind them, so that rows can be
assembled from a file's tensors by copying; the rest are GGUF's, byte for byte:

F8      per 128 columns 128 8-bit floats (e4m3); a float32 scale each
MX4     per 32 columns 16 bytes of two 4-bit floats (e2m1), even columns low; a power of two as a biased exponent each
I4S     per 32 columns 16 bytes of two 4-bit integers + 8, even columns low; a bfloat16 scale each
I4Z32   per 32 columns 16 bytes of two 4-bit integers, even columns low; a float32 scale each, then a zero point each
I4Z128  the same per 128 columns
I8S     per 32 columns 32 int8; one float32 scale for the row
Q8_0, Q4_0, Q5_0, MXFP4 (units of 32 columns), Q4_K, Q5_K, Q6_K (of 256): see `gguf_rows`

K-quants, of which most published files are, take their activations as integers of 24 bits (`planes`), the others as
float32: computed with either, a product is as exact.

Rows of the first six are filled up to whole units, GGUF's always are whole; what lies in a unit beyond the last
column is multiplied with zero.
"""

from __future__ import annotations

F32 = 0
F16 = 1
BF16 = 2
I8R = 3
I4G = 4
I4G64 = 5
I4G128 = 6
F8 = 7
MX4 = 8
I4S = 9
I4Z32 = 10
I4Z128 = 11
Q8_0 = 12
Q4_0 = 13
Q5_0 = 14
MXFP4 = 15
Q4_K = 16
Q5_K = 17
Q6_K = 18
I8S = 19

K_QUANTS = (Q4_K, Q5_K, Q6_K)

PACKED = (I8R, I4G, I4G64, I4G128)
"""Formats in blocks of 16 rows."""

INT4 = {32: I4G, 64: I4G64, 128: I4G128}
"""The packed int4 formats by the columns that share a weight scale."""

ROWS = 16
"""Rows of a block, in every format."""

GROUP = 32
"""Columns that share an activation scale."""

LAYOUT = {
    F32: "f32-rows-1", F16: "f16-rows-1", BF16: "bf16-rows-1",
    I8R: "i8r-r16k4-1", I4G: "i4g-r16k4-1", I4G64: "i4g64-r16k4-1", I4G128: "i4g128-r16k4-1",
}  # fmt: skip
"""Name and version of each byte layout, for a container's metadata."""

I8R_SCALES = 4 * ROWS
I4G_SCALES = 64
"""Bytes of the two rows of scales that a unit of an int4 block begins with."""

I4G_PAIR = 512
"""Bytes of 64 columns of an int4 block, without scales."""


def itemsize(fmt: int) -> int:
    """Bytes of one element of a float format."""
    return 4 if fmt == F32 else 2


def unit_columns(fmt: int) -> int:
    """Columns of a unit of a row-major format; 1 for float formats, whose columns can be read one by one."""
    if fmt <= BF16:
        return 1
    if fmt in (F8, I4Z128):
        return 128
    if fmt in K_QUANTS:
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


def is_packed(fmt: int) -> bool:
    """Whether a format is one of PACKED: its products take activations quantised to int8."""
    return I8R <= fmt <= I4G128


TAKES_FLOATS = 0
TAKES_Q8 = 1
TAKES_PLANES = 2


def takes(fmt: int) -> int:
    """What products with a format are given for a position: float32, a q8 record (`quantize`) or planes (`planes`)."""
    if Q4_K <= fmt <= Q6_K:
        return TAKES_PLANES
    return TAKES_Q8 if is_packed(fmt) else TAKES_FLOATS


def unit_shift(fmt: int) -> int:
    """How often a weight scale of a packed int4 format is shared: by 32 << this many columns."""
    return fmt - I4G


def padded(fmt: int, k: int) -> int:
    """Columns stored for a row of `k`: packed formats round up, int8 to 32 columns, int4 to 64."""
    if fmt == I8R:
        return -(-k // GROUP) * GROUP
    if is_packed(fmt):
        return -(-k // 64) * 64
    return k


def block_bytes(fmt: int, k: int) -> int:
    """Bytes of one block of 16 rows of `k` columns: the distance from one block's address to the next."""
    if fmt == I8R:
        return I8R_SCALES + ROWS * padded(fmt, k)
    if is_packed(fmt):
        pairs, shift = padded(fmt, k) // 64, unit_shift(fmt)
        return pairs * I4G_PAIR + (((pairs - 1) >> shift) + 1) * I4G_SCALES
    return ROWS * row_bytes(fmt, k)


def matrix_bytes(fmt: int, n: int, k: int) -> int:
    """Bytes of a matrix of `n` rows: whole blocks in packed formats, n rows in the others."""
    if is_packed(fmt):
        return -(-n // ROWS) * block_bytes(fmt, k)
    return n * row_bytes(fmt, k)


Q8_GROUP = 48
"""Bytes of a group of 32 columns of a q8 record, the activations packed formats are multiplied with (`quantize`)."""

Q8_SCALE = 32
Q8_SUM8 = 36
Q8_SUM128 = 40
"""Where in a group its float32 scale, -8 * sum(q) and -128 * sum(q) lie."""
