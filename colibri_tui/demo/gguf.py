"""A small reader for GGUF files: metadata, and tensors of the three types that the demo's base model has.

Layout (ggml's docs/gguf.md, versions 2 and 3), little-endian throughout:

    magic "GGUF", u32 version, u64 tensors, u64 metadata entries
    metadata entries: string key, u32 type, value        string: u64 length, UTF-8 bytes
    tensor entries:   string name, u32 dimensions, u64 sizes[dimensions] (fastest first), u32 type, u64 offset
    padding to `general.alignment`; data, each tensor at its offset

A file is someone else's word: every count is held against the bytes that are really there before anything is
allocated for it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import CheckpointError

Floats = npt.NDArray[np.float32]

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_DIMENSIONS = 4
_BLOCK = 32
"""Weights that share a scale."""

_Q4_1 = np.dtype([("scale", "<f2"), ("least", "<f2"), ("quants", "u1", _BLOCK // 2)])
_Q8_0 = np.dtype([("scale", "<f2"), ("quants", "i1", _BLOCK)])


def _f32(data: npt.NDArray[Any]) -> Floats:
    return data.astype(np.float32)


def _q4_1(blocks: npt.NDArray[Any]) -> Floats:
    """value = quant * scale + least; a byte holds quant i in its low and quant i + 16 in its high half."""
    values = np.empty((len(blocks), _BLOCK), np.float32)
    values[:, : _BLOCK // 2] = blocks["quants"] & 15
    values[:, _BLOCK // 2 :] = blocks["quants"] >> 4
    values *= blocks["scale"].astype(np.float32)[:, None]
    values += blocks["least"].astype(np.float32)[:, None]
    return values


def _q8_0(blocks: npt.NDArray[Any]) -> Floats:
    """value = quant * scale."""
    return blocks["quants"].astype(np.float32) * blocks["scale"].astype(np.float32)[:, None]


_TYPES: dict[int, tuple[int, np.dtype[Any], Callable[[npt.NDArray[Any]], Floats]]] = {
    0: (1, np.dtype("<f4"), _f32),
    3: (_BLOCK, _Q4_1, _q4_1),
    8: (_BLOCK, _Q8_0, _q8_0),
}
"""ggml type -> (weights a block, block, how blocks become float32)."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    shape: tuple[int, ...]
    kind: int
    offset: int


class _Cursor:
    """Reads forward through a buffer; never past its end."""

    def __init__(self, data: memoryview, origin: str) -> None:
        self._data, self._origin = data, origin
        self.position = 0

    def fail(self, what: str) -> CheckpointError:
        """Return the error to raise."""
        return CheckpointError(f"{self._origin}: {what} at byte {self.position}; the file is damaged, get it again")

    def take(self, count: int, what: str) -> memoryview:
        """Return the next `count` bytes."""
        if count > len(self._data) - self.position:
            raise self.fail(f"{what} of {count} bytes goes past the end")
        start, self.position = self.position, self.position + count
        return self._data[start : self.position]

    def number(self, code: str) -> Any:
        """Return one number by its `struct` code."""
        size = struct.calcsize("<" + code)
        return struct.unpack("<" + code, self.take(size, "a number"))[0]

    def string(self) -> str:
        """Return a length-prefixed string."""
        raw = self.take(self.number("Q"), "a text")
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise self.fail("a text that is not UTF-8") from None

    def value(self) -> Any:
        """Return a typed metadata value: number, string, or list of either."""
        kind = self.number("I")
        if kind == _STRING:
            return self.string()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY:
            raise self.fail(f"unknown value type {kind}")
        kind, count = self.number("I"), self.number("Q")
        if kind == _STRING:
            self.require(count, 8, "a list")
            return [self.string() for _ in range(count)]
        if kind not in _SCALARS:
            raise self.fail(f"list of unknown type {kind}")
        code = _SCALARS[kind]
        self.require(count, struct.calcsize("<" + code), "a list")
        return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize("<" + code), "a list")))

    def require(self, count: int, size: int, what: str) -> None:
        """Refuse `count` items of at least `size` bytes each if they cannot all be there."""
        if count * size > len(self._data) - self.position:
            raise self.fail(f"{what} of {count} items goes past the end")


class Gguf:
    """An open GGUF file. `data` is all of it, `origin` names it in errors.

    metadata: key -> number, string or list. Raises CheckpointError when the file is damaged.
    """

    def __init__(self, data: memoryview, origin: str) -> None:
        cursor = _Cursor(data, origin)
        if bytes(data[:4]) != b"GGUF":
            raise CheckpointError(f"{origin}: not a GGUF file")
        cursor.position = 4
        version = cursor.number("I")
        if version not in (2, 3):
            raise CheckpointError(f"{origin}: GGUF version {version}, only 2 and 3 are read")
        tensors, entries = cursor.number("Q"), cursor.number("Q")
        cursor.require(entries, 8 + 4 + 1, "metadata")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = cursor.string()
            self.metadata[key] = cursor.value()
        cursor.require(tensors, 8 + 4 + 8 + 4 + 8, "a tensor list")
        self._tensors = dict(_read_tensor(cursor) for _ in range(tensors))
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 1 << 16:
            raise CheckpointError(f"{origin}: general.alignment is {alignment!r}; the file is damaged, get it again")
        self._start = -(-cursor.position // alignment) * alignment
        self._data, self._origin = data, origin

    def get(self, key: str, kind: type[Any]) -> Any:
        """Return a metadata value. Raises CheckpointError when it is absent or not of this type."""
        value = self.metadata.get(key)
        if type(value) is not kind:
            raise CheckpointError(f"{self._origin}: metadata {key!r} is {type(value).__name__}, not {kind.__name__}")
        return value

    def names(self) -> list[str]:
        """Return the tensors' names in the file's order."""
        return list(self._tensors)

    def tensor(self, name: str) -> Floats:
        """Return a tensor as float32, slowest dimension first. The array is the caller's own.

        Raises CheckpointError when it is absent, of a type that is not read, or not wholly in the file.
        """
        where = f"{self._origin}: tensor {name!r}"
        if name not in self._tensors:
            raise CheckpointError(f"{where} is missing")
        tensor = self._tensors[name]
        if tensor.kind not in _TYPES:
            raise CheckpointError(f"{where} has ggml type {tensor.kind}; only F32, Q4_1 and Q8_0 are read")
        weights, block, to_float = _TYPES[tensor.kind]
        count = math.prod(tensor.shape)
        if tensor.shape[-1] % weights:
            raise CheckpointError(f"{where} has rows of {tensor.shape[-1]} weights, not whole blocks of {weights}")
        size = count // weights * block.itemsize
        start = self._start + tensor.offset
        if start + size > len(self._data):
            raise CheckpointError(f"{where} ends at byte {start + size} of {len(self._data)}; get the file again")
        blocks = np.frombuffer(self._data, block, count // weights, start)
        return to_float(blocks).reshape(tensor.shape)


def _read_tensor(cursor: _Cursor) -> tuple[str, _Tensor]:
    name = cursor.string()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise cursor.fail(f"tensor {name!r} of {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))[::-1]
    return name, _Tensor(shape, cursor.number("I"), cursor.number("Q"))
