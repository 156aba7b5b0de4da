"""Layouts of weights on disk, one module each: they recognise their tensors by name and shape, and say how these become
rows in one of the kernels' formats. Nothing is rounded: rows stand for exactly what the checkpoint does."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import CheckpointError
from ...kernels.formats import MXFP4, Q4_0, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0, unit_columns
from ..unclaimed import Unclaimed
from . import colibri, compressed, fp8, gptq, mxfp4
from .base import FLOAT_FORMATS, PlainRows, Shape, Stored, expect

__all__ = ["FLOAT_FORMATS", "Shape", "Stored", "expect", "find", "present"]

_GGUF = {
    "Q8_0": Q8_0, "Q4_0": Q4_0, "Q5_0": Q5_0, "MXFP4": MXFP4, "Q4_K": Q4_K, "Q5_K": Q5_K, "Q6_K": Q6_K,
}  # fmt: skip
_ROW_FORMATS = {**FLOAT_FORMATS, **_GGUF}
"""Kernels' formats by the dtypes of tensors whose rows are read as they are."""

_FINDERS: tuple[Callable[[Unclaimed, str, Shape], Stored | None], ...] = (
    fp8.find, colibri.find, mxfp4.find, compressed.find, gptq.find,
)  # fmt: skip
_MARKED = (mxfp4, compressed, gptq)


def present(tensors: Unclaimed, name: str) -> bool:
    """Whether a matrix is there under its hub name, in whichever layout."""
    return tensors.has(name) or any(tensors.has(layout.marker(name)) for layout in _MARKED)


def find(tensors: Unclaimed, name: str, shape: Shape) -> Stored:
    """Take the matrix of that hub name: [n, k], or [stack, n, k] as matrices one below the other."""
    for find_layout in _FINDERS:
        found = find_layout(tensors, name, shape)
        if found is not None:
            return found
    for layout in _MARKED:
        if not tensors.has(name) and any(map(tensors.has, layout.companions(name))):
            tensors.need(layout.marker(name))  # all but the integers themselves are there
    entry = tensors.need(name)
    fmt = _ROW_FORMATS.get(entry.dtype)
    if fmt is None and entry.dtype in ("U8", "I8"):
        raise CheckpointError(
            f"{entry.file.name}: tensor {name} holds integers, but {name}.qs, their scales, is missing; download it "
            "again"
        )
    if fmt is None:
        raise CheckpointError(
            f"{entry.file.name}: tensor {name} has dtype {entry.dtype}; only BF16, F16 and F32, known integers with "
            f"scales beside them, and GGUF's {', '.join(_GGUF)} are supported"
        )
    expect(entry, entry.dtype, shape)
    *rows, k = shape
    if k % unit_columns(fmt):
        raise CheckpointError(f"{entry.file.name}: tensor {name} has rows of {k}, which {entry.dtype} cannot have")
    n = 1
    for size in rows:
        n *= size
    return PlainRows(fmt, n, k, entry)
