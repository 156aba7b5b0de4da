"""Writes GGUF files byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

KINDS = {int: 4, float: 6, bool: 7, str: 8}
"""Of the types of GGUF, those that values of Python are written as: u32, f32, bool, string."""

Tensors = Mapping[str, tuple[int, tuple[int, ...], bytes]]
"""name -> (type, shape with the slowest dimension first, data)."""


def text(value: str) -> bytes:
    """A string after its length."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _scalar(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<?", value)
        case int():
            return struct.pack("<I", value)
        case float():
            return struct.pack("<f", value)
        case _:
            return text(value)


def entry(key: str, value: Any) -> bytes:
    """A metadata entry: a number, a string, or a list of either."""
    if isinstance(value, list):
        head = struct.pack("<IIQ", 9, KINDS[type(value[0])], len(value))
        return text(key) + head + b"".join(map(_scalar, value))
    return text(key) + struct.pack("<I", KINDS[type(value)]) + _scalar(value)


def gguf(metadata: Mapping[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """The bytes of a file."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    out += b"".join(entry(key, value) for key, value in metadata.items())
    data = []
    offset = 0
    for name, (kind, shape, content) in tensors.items():
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        out += struct.pack("<IQ", kind, offset)
        data.append(content + bytes(-len(content) % 32))
        offset += len(data[-1])
    return out + bytes(-len(out) % 32) + b"".join(data)
