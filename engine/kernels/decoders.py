"""The decoders of all row-major formats."""

from __future__ import annotations

from .decoder import Decoder
from .formats import (
    BF16,
    F8,
    F16,
    F32,
    I4S,
    I4Z32,
    I4Z128,
    I8S,
    MX4,
    MXFP4,
    Q4_0,
    Q4_K,
    Q5_0,
    Q5_K,
    Q6_K,
    Q8_0,
)
from .gguf_rows import MXFP4Rows, Q4KRows, Q5KRows, Q6KRows, Q40Rows, Q50Rows, Q80Rows
from .hub_rows import BF16Rows, F8Rows, F16Rows, F32Rows, I4SRows, I4Z32Rows, I4Z128Rows, I8SRows, MX4Rows

DECODERS: dict[int, type[Decoder]] = {
    F32: F32Rows, F16: F16Rows, BF16: BF16Rows, F8: F8Rows, I8S: I8SRows, MX4: MX4Rows, I4S: I4SRows,
    I4Z32: I4Z32Rows, I4Z128: I4Z128Rows, Q8_0: Q80Rows, Q4_0: Q40Rows, Q5_0: Q50Rows, MXFP4: MXFP4Rows,
    Q4_K: Q4KRows, Q5_K: Q5KRows, Q6_K: Q6KRows,
}  # fmt: skip
"""By format."""
