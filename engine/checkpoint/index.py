"""The index of a model folder: config.json and the headers of its safetensors files.

Headers come from strangers: every length and offset is checked before it is used, and nothing is allocated by what a
header says. What is wrong is named with its file and tensor.
"""

from __future__ import annotations

import json
import stat
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from ..errors import CheckpointError

ITEM_BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip
"""Bytes of one element by safetensors dtype."""

MAX_HEADER = 100_000_000
"""The format's own limit."""

MAX_JSON = 200_000_000
MAX_RANK = 8
MAX_NAME = 500
LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor: where it lies and what it is. `offset` counts from the start of the file."""

    name: str
    file: Path
    offset: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's config and tensors.

    formats: what `colibri.fmt` metadata says of tensors, by name. metadata: a GGUF file's, whose tensors have the names
    that llama.cpp gives them; empty for all others.
    """

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, TensorEntry]
    formats: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Read config.json and all headers. Raises CheckpointError naming what is missing or broken."""
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: no such model folder")
        config = read_json(folder / "config.json")
        return cls.of(folder, config, ((file, *read_header(file)) for file in _weight_files(folder)))

    @classmethod
    def of(
        cls, folder: Path, config: dict[str, Any], headers: Iterable[tuple[Path, dict[str, str], list[TensorEntry]]]
    ) -> Checkpoint:
        """Put together what the headers of all files say: (file, metadata, tensors)."""
        tensors: dict[str, TensorEntry] = {}
        formats: dict[str, str] = {}
        for file, extra, entries in headers:
            formats.update(_formats(file, extra))
            for entry in entries:
                if entry.name in tensors:
                    raise CheckpointError(
                        f"{file.name}: tensor {entry.name} is also in {tensors[entry.name].file.name}; "
                        "remove the file that does not belong to this model"
                    )
                tensors[entry.name] = entry
        return cls(folder, config, tensors, formats)


def _formats(file: Path, metadata: Mapping[str, str]) -> dict[str, str]:
    """The formats of tensors by name that a container's metadata has."""
    text = metadata.get("colibri.fmt")
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(fmt, str) for fmt in value.values()):
        raise CheckpointError(f"{file}: its metadata colibri.fmt is no map of names to formats; download it again")
    return value


def _regular_size(path: Path) -> int:
    """The size of an ordinary file; CheckpointError for what is none, which a read might wait for without end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path}: not an ordinary file")
    return status.st_size


def _shown(text: str) -> str:
    """A name from outside, fit for an error's one line."""
    return text[:100] if text.isprintable() else ascii(text[:100])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are all different: with two values of a key, no one can say which was meant."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; CheckpointError when it is missing, too large, broken or not an object."""
    try:
        size = _regular_size(path)
        if size > MAX_JSON:
            raise CheckpointError(f"{path}: {size:,} bytes is too large for a JSON file")
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing; a model folder needs it, download it again") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: not valid JSON; download it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds no JSON object; download it again")
    return value


def _weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: those its index names, which must be there, or else all."""
    files = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise CheckpointError(f"{index}: has no usable weight_map; download it again")
        wanted = sorted(set(weight_map.values()))
        present = {file.name for file in files}
        missing = [name for name in wanted if name not in present]
        if missing:
            named = ", ".join(map(_shown, missing[:3])) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            raise CheckpointError(
                f"{folder}: {len(missing)} of {len(wanted)} shards missing: {named}; download them again"
            )
        files = [file for file in files if file.name in set(wanted)]
    if not files:
        raise CheckpointError(f"{folder}: no *.safetensors files; is this a model folder?")
    return files


def read_header(file: Path) -> tuple[dict[str, str], list[TensorEntry]]:
    """Read one file's header. Returns its metadata and its tensors, each checked against the file's size."""
    try:
        size = _regular_size(file)
        with file.open("rb") as stream:
            length = header_bytes(file, size, stream.read(len(LFS_POINTER)))
            stream.seek(8)
            raw = stream.read(length)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    return parse_header(file, size, raw)


def refuse_pointer(file: Path, start: bytes) -> None:
    """Refuse what stands for a file that was not fetched; `start`: its first bytes."""
    if start == LFS_POINTER:
        raise CheckpointError(f"{file}: a pointer file, not weights; fetch it with `git lfs pull`")


def header_bytes(file: Path, size: int, start: bytes) -> int:
    """How long the header is that follows the first 8 bytes of a file; `start`: how a file of `size` bytes begins."""
    refuse_pointer(file, start)
    if len(start) < 8:
        raise CheckpointError(f"{file}: only {size} bytes; download it again")
    (length,) = struct.unpack("<Q", start[:8])
    if length > MAX_HEADER or 8 + length > size:
        raise CheckpointError(f"{file}: not a whole safetensors file ({size:,} bytes); download it again")
    return int(length)


def parse_header(file: Path, size: int, raw: bytes) -> tuple[dict[str, str], list[TensorEntry]]:
    """The metadata and the tensors that a header names, of a file of `size` bytes."""
    try:
        header = json.loads(raw, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{file}: its header is not a JSON object of distinct names; download it again")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{file}: its metadata is not an object; download it again")
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    entries = [_entry(file, name, value, 8 + len(raw), size) for name, value in header.items()]
    refuse_overlaps(entries)
    return texts, entries


def refuse_overlaps(entries: list[TensorEntry]) -> None:
    """Stop if two tensors of a file share bytes."""
    end, before = 0, ""
    for entry in sorted(entries, key=lambda entry: (entry.offset, entry.nbytes)):
        if entry.offset < end and entry.nbytes:
            raise CheckpointError(
                f"{entry.file}: tensors {before} and {entry.name} claim the same bytes; download it again"
            )
        end, before = max(end, entry.offset + entry.nbytes), entry.name


def _entry(file: Path, name: str, value: Any, data_start: int, size: int) -> TensorEntry:
    try:
        dtype, shape, (begin, end) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
        sound = isinstance(dtype, str) and len(shape) <= MAX_RANK and len(name) <= MAX_NAME and name.isprintable()
        sound = sound and all(type(n) is int and 0 <= n < 1 << 60 for n in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise CheckpointError(f"{file}: the header's entry of tensor {_shown(name)} is broken; download it again")
    if dtype not in ITEM_BYTES:
        raise CheckpointError(f"{file}: tensor {name} has the unknown dtype {_shown(dtype)}")
    if end < begin or end - begin != prod(shape) * ITEM_BYTES[dtype]:
        raise CheckpointError(
            f"{file}: tensor {name} has {end - begin:,} bytes, its shape {list(shape)} in {dtype} needs "
            f"{prod(shape) * ITEM_BYTES[dtype]:,}"
        )
    if data_start + end > size:
        raise CheckpointError(
            f"{file}: cut short at {size:,} bytes, tensor {name} ends at {data_start + end:,}; download it again"
        )
    return TensorEntry(name, file, data_start + begin, end - begin, dtype, shape)
