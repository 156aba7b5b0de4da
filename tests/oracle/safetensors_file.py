"""Writes safetensors files byte by byte, good ones and, for the tests of refusals, any other."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

DTYPES = ("BF16", "F16", "F32")


class Stored(NamedTuple):
    """A tensor as it lies in a file."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def rounded(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.float32]:
    """Values as float32 that `dtype` holds exactly: rounded to nearest, ties to even."""
    if dtype == "F16":
        return values.astype(np.float16).astype(np.float32)
    single = values.astype(np.float32)
    if dtype == "F32":
        return single
    bits = single.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def stored(values: npt.NDArray[np.float32], dtype: str) -> Stored:
    """A tensor in `dtype`, which holds its values exactly."""
    if dtype == "F16":
        data = values.astype("<f2").tobytes()
    elif dtype == "F32":
        data = values.astype("<f4").tobytes()
    else:
        data = (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return Stored(dtype, values.shape, data)


def header_of(tensors: Mapping[str, Stored]) -> dict[str, Any]:
    """The header of a file that holds these tensors in this order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    return header


def with_header(header: bytes, data: bytes = b"") -> bytes:
    """A file of this header, as it is, and this data."""
    return struct.pack("<Q", len(header)) + header + data


def write(path: Path, tensors: Mapping[str, Stored]) -> None:
    """Write tensors in the order given."""
    text = json.dumps(header_of(tensors)).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(with_header(text, b"".join(tensor.data for tensor in tensors.values())))
