"""The header of a GGUF file: metadata, and where its tensors lie.

Layout (ggml's docs/gguf.md, versions 2 and 3), little-endian throughout:

    magic "GGUF", u32 version, u64 tensors, u64 metadata entries
    metadata entries: string key, u32 type, value        string: u64 length, UTF-8 bytes
    tensor entries:   string name, u32 dimensions, u64 sizes[dimensions] (fastest first), u32 type, u64 offset
    padding to `general.alignment`; data, each tensor at its offset

A file is someone else's word: every count is held against the bytes that are really there before anything is
allocated for it.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any, NamedTuple

from ..errors import CheckpointError

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_DIMENSIONS = 4
_LENGTH = struct.Struct("<Q")


class GgufCutError(CheckpointError):
    """A header that goes past the end of what is there."""


class GgmlType(NamedTuple):
    """How ggml stores numbers: `columns` of them in a block of `nbytes`."""

    name: str
    columns: int
    nbytes: int


TYPES = {
    0: GgmlType("F32", 1, 4), 1: GgmlType("F16", 1, 2), 2: GgmlType("Q4_0", 32, 18), 3: GgmlType("Q4_1", 32, 20),
    6: GgmlType("Q5_0", 32, 22), 7: GgmlType("Q5_1", 32, 24), 8: GgmlType("Q8_0", 32, 34),
    9: GgmlType("Q8_1", 32, 36), 10: GgmlType("Q2_K", 256, 84), 11: GgmlType("Q3_K", 256, 110),
    12: GgmlType("Q4_K", 256, 144), 13: GgmlType("Q5_K", 256, 176), 14: GgmlType("Q6_K", 256, 210),
    15: GgmlType("Q8_K", 256, 292), 16: GgmlType("IQ2_XXS", 256, 66), 17: GgmlType("IQ2_XS", 256, 74),
    18: GgmlType("IQ3_XXS", 256, 98), 19: GgmlType("IQ1_S", 256, 50), 20: GgmlType("IQ4_NL", 32, 18),
    21: GgmlType("IQ3_S", 256, 110), 22: GgmlType("IQ2_S", 256, 82), 23: GgmlType("IQ4_XS", 256, 136),
    24: GgmlType("I8", 1, 1), 25: GgmlType("I16", 1, 2), 26: GgmlType("I32", 1, 4), 27: GgmlType("I64", 1, 8),
    28: GgmlType("F64", 1, 8), 29: GgmlType("IQ1_M", 256, 56), 30: GgmlType("BF16", 1, 2),
    34: GgmlType("TQ1_0", 256, 54), 35: GgmlType("TQ2_0", 256, 66), 39: GgmlType("MXFP4", 32, 17),
    40: GgmlType("NVFP4", 64, 36),
}  # fmt: skip
"""By the number in the file."""


class GgufTensor(NamedTuple):
    """A tensor's shape, slowest dimension first, its type's number, and where it begins in the file."""

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

    def cut(self, what: str) -> GgufCutError:
        """Return the error to raise where the data ends too early."""
        return GgufCutError(str(self.fail(f"{what} goes past the end")))

    def take(self, count: int, what: str) -> memoryview:
        """Return the next `count` bytes."""
        if count > len(self._data) - self.position:
            raise self.cut(f"{what} of {count} bytes")
        start, self.position = self.position, self.position + count
        return self._data[start : self.position]

    def number(self, code: str) -> Any:
        """Return one number by its `struct` code."""
        size = struct.calcsize("<" + code)
        return struct.unpack("<" + code, self.take(size, "a number"))[0]

    def string(self) -> str:
        """Return a length-prefixed string."""
        raw = bytes(self.take(self.number("Q"), "a text"))  # an error must not hold on to the mapped file
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
            return self._strings(count)
        if kind not in _SCALARS:
            raise self.fail(f"list of unknown type {kind}")
        code = _SCALARS[kind]
        self.require(count, struct.calcsize("<" + code), "a list")
        return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize("<" + code), "a list")))

    def _strings(self, count: int) -> list[str]:
        """Return so many strings; a vocabulary has hundreds of thousands."""
        data, position, end = self._data, self.position, len(self._data)
        strings = []
        for _ in range(count):
            start = position + 8
            if start > end:
                raise self.cut("a list")
            position = start + _LENGTH.unpack_from(data, position)[0]
            if position > end:
                raise self.cut("a list")
            try:
                strings.append(str(data[start:position], "utf-8"))
            except UnicodeDecodeError:
                raise self.fail("a text that is not UTF-8") from None
        self.position = position
        return strings

    def require(self, count: int, size: int, what: str) -> None:
        """Refuse `count` items of at least `size` bytes each if they cannot all be there."""
        if count * size > len(self._data) - self.position:
            raise self.cut(f"{what} of {count} items")


class Gguf:
    """A GGUF file's header. `origin` names it in errors.

    data: all of the file, or its beginning; then `size` is the file's. metadata: key -> number, string or list.
    tensors: by name, in the file's order. Raises CheckpointError when the file is damaged, GgufCutError when `data`
    ends before the header does.
    """

    def __init__(self, data: memoryview, origin: str, size: int | None = None) -> None:
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
        listed = [_read_tensor(cursor) for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 1 << 16:
            raise CheckpointError(f"{origin}: general.alignment is {alignment!r}; the file is damaged, get it again")
        start = -(-cursor.position // alignment) * alignment
        self.tensors = {name: tensor._replace(offset=start + tensor.offset) for name, tensor in listed}
        if len(self.tensors) < len(listed):
            raise CheckpointError(f"{origin}: a tensor is listed twice; the file is damaged, get it again")
        self.size, self.origin = len(data) if size is None else size, origin

    def get(self, key: str, kind: type[Any]) -> Any:
        """Return a metadata value. Raises CheckpointError when it is absent or not of this type."""
        value = self.metadata.get(key)
        if type(value) is not kind:
            raise CheckpointError(f"{self.origin}: metadata {key!r} is {type(value).__name__}, not {kind.__name__}")
        return value

    def nbytes(self, name: str) -> int:
        """Return the bytes of a tensor. Raises CheckpointError when they are not all in the file."""
        tensor, where = self.tensors[name], f"{self.origin}: tensor {name!r}"
        if tensor.kind not in TYPES:
            raise CheckpointError(f"{where} has the unknown ggml type {tensor.kind}")
        kind = TYPES[tensor.kind]
        if tensor.shape[-1] % kind.columns:
            raise CheckpointError(f"{where} has rows of {tensor.shape[-1]} weights, not whole blocks of {kind.columns}")
        size = prod(tensor.shape) // kind.columns * kind.nbytes
        if tensor.offset + size > self.size:
            raise CheckpointError(f"{where} ends at byte {tensor.offset + size} of {self.size}; get the file again")
        return size


def _read_tensor(cursor: _Cursor) -> tuple[str, GgufTensor]:
    name = cursor.string()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise cursor.fail(f"tensor {name!r} of {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))[::-1]
    return name, GgufTensor(shape, cursor.number("I"), cursor.number("Q"))
