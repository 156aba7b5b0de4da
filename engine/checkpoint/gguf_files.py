"""Models as GGUF files: one file, or one split into several."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CheckpointError
from .gguf import TYPES, Gguf
from .gguf_config import read_config
from .index import LFS_POINTER, Checkpoint, TensorEntry, refuse_overlaps, refuse_pointer

SUFFIX = ".gguf"
_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_NO_MODEL = ("mmproj", "mtp-")
"""How files begin that hold something else: vision, multi-token prediction."""


def is_gguf(path: Path) -> bool:
    """Whether a path means a model in GGUF: such a file, or a folder that holds no other kind of model."""
    if path.is_dir():
        return not (path / "config.json").exists() and any(path.glob("*" + SUFFIX))
    return path.suffix == SUFFIX


def is_model_file(name: str) -> bool:
    """Whether a GGUF file of this name is, or is part of, a language model."""
    return not name.startswith(_NO_MODEL)


def model_files(path: Path) -> list[Path]:
    """The files of the model that a path means. Raises CheckpointError when that is not clear or not complete."""
    if path.is_dir():
        found = sorted(file for file in path.glob("*" + SUFFIX) if is_model_file(file.name))
        models = {part["stem"] if (part := _PART.fullmatch(file.name)) else file.name: file for file in found}
        if len(models) != 1:
            some = ", ".join(ascii(name) for name in list(models)[:3])
            raise CheckpointError(f"{path}: {len(models)} models as GGUF ({some}); name the file of one")
        path = next(iter(models.values()))
    part = _PART.fullmatch(path.name)
    if part is None:
        return [path]
    count = int(part["count"])
    files = [path.with_name(f"{part['stem']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise CheckpointError(
            f"{path.parent}: {len(missing)} of {count} parts missing: {missing[0]}; download them again"
        )
    return files


def _read_header(file: Path) -> Gguf:
    try:
        with (
            file.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
            memoryview(data) as view,
        ):
            refuse_pointer(file, data[: len(LFS_POINTER)])
            return Gguf(view, str(file))
    except ValueError:  # an empty file cannot be mapped
        raise CheckpointError(f"{file}: not a GGUF file") from None
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None


def open_gguf(path: Path) -> Checkpoint:
    """Read the headers of the model that `path` means. Raises CheckpointError, UnsupportedModelError."""
    return gguf_checkpoint(path, [(file, _read_header(file)) for file in model_files(path)])


def gguf_checkpoint(path: Path, headers: Sequence[tuple[Path, Gguf]]) -> Checkpoint:
    """Put together what the headers of a model's files say, in order. Raises CheckpointError, UnsupportedModelError."""
    tensors: dict[str, TensorEntry] = {}
    for file, header in headers:
        entries = [
            TensorEntry(name, file, tensor.offset, header.nbytes(name), TYPES[tensor.kind].name, tensor.shape)
            for name, tensor in header.tensors.items()
        ]
        refuse_overlaps(entries)
        for entry in entries:
            if not entry.name.isprintable() or entry.name in tensors:
                raise CheckpointError(f"{file}: tensor {entry.name[:100]!a} has no usable name of its own")
            tensors[entry.name] = entry
    first, metadata = headers[0][0], headers[0][1].metadata
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise CheckpointError(f"{first}: tensor token_embd.weight is missing; is this a language model?")
    config = read_config(metadata, tensors, embedding.shape[0], str(first))
    return Checkpoint(path, config, tensors, metadata=metadata)
