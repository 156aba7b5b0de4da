"""Activations in the form that a weight format's products are given."""

from __future__ import annotations

from numba import njit
from numba.extending import register_jitable

from . import formats
from .formats import TAKES_FLOATS, TAKES_PLANES
from .planes import planes_bytes, quantize_planes
from .quantize import q8_bytes, quantize_q8

takes = register_jitable(formats.takes)


@register_jitable
def input_bytes(fmt: int, k: int) -> int:
    """Bytes of `k` columns of one position."""
    kind = takes(fmt)
    if kind == TAKES_FLOATS:
        return 4 * k
    return planes_bytes(k) if kind == TAKES_PLANES else q8_bytes(k)


@njit(cache=True, nogil=True)
def write_record(fmt: int, x: int, k: int, out: int) -> None:
    """Write what products with a format that does not take float32 are given for float32[k] at `x` to `out`.

    Planes may be written where `x` lies.
    """
    if takes(fmt) == TAKES_PLANES:
        quantize_planes(x, k, out)
    else:
        quantize_q8(x, k, out)
