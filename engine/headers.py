"""What a model's files say of it, whichever kind of files they are: its tensors, and what kind of model it is."""

from __future__ import annotations

from pathlib import Path

from .checkpoint.gguf_files import is_gguf, open_gguf
from .checkpoint.gguf_keys import in_gguf_words
from .checkpoint.index import Checkpoint, read_json
from .errors import UnsupportedModelError
from .families import read_spec
from .model.spec import ModelSpec


def read_headers(path: Path) -> Checkpoint:
    """Read the headers of a model: a folder, or a GGUF file. Raises CheckpointError, UnsupportedModelError."""
    return open_gguf(path) if is_gguf(path) else Checkpoint.open(path)


def spec_of(checkpoint: Checkpoint) -> ModelSpec:
    """What kind of model it is. UnsupportedModelError names what cannot be run, of a GGUF file by that file's keys."""
    try:
        return read_spec(checkpoint.config)
    except UnsupportedModelError as error:
        if not checkpoint.metadata:
            raise
        said = in_gguf_words(str(error), checkpoint.metadata, str(checkpoint.folder))
        raise UnsupportedModelError(said) from None


def family_of(path: Path) -> str:
    """The family of a model, from as little as tells it; raises CheckpointError, UnsupportedModelError."""
    return read_spec(open_gguf(path).config if is_gguf(path) else read_json(path / "config.json")).family
