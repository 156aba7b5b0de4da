"""What a conversion has finished, kept beside its files so that the next attempt goes on from there.

A file is written under another name, forced to disk and renamed; then the journal, which is replaced whole, says how
large it is and what its SHA-256 is. A file that the journal does not know was not finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, TypedDict

from ..files import replace_file, sync_folder

NAME: Final = ".conversion.json"
_LONGEST: Final = 64 << 20
_PIECE: Final = 4 << 20


class Note(TypedDict):
    """kept: "int4/32", "int8", "float16", ... error: what that cost, 0 for floats. tried: the cost of each that was
    measured before, on samples."""

    kept: str
    error: float
    tried: dict[str, float]


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished file. notes: how its matrices are kept, by tensor, or of experts "gate, up" and "down"."""

    nbytes: int
    sha256: str
    notes: dict[str, Note] = field(default_factory=dict)


class Journal:
    """The journal of the conversion in `folder` that is known by `key`; one of another conversion is forgotten."""

    def __init__(self, folder: Path, key: str) -> None:
        self._path, self._key = folder / NAME, key
        self.finished: dict[str, Finished] = {}
        stored = _stored(self._path, key)
        for name, said in stored.items():
            path = folder / name
            if path.is_file() and path.stat().st_size == said.nbytes:
                self.finished[name] = said

    def note(self, name: str, finished: Finished) -> None:
        """Write down that a file is finished."""
        self.finished[name] = finished
        self._save()

    def forget(self, name: str) -> None:
        """Take a file back."""
        del self.finished[name]
        self._save()

    def _save(self) -> None:
        said = {"key": self._key, "files": {name: asdict(one) for name, one in self.finished.items()}}
        replace_file(self._path, json.dumps(said).encode(), self._path.with_suffix(".new"))

    def remove(self) -> None:
        """The conversion is complete."""
        self._path.unlink(missing_ok=True)


def _stored(path: Path, key: str) -> dict[str, Finished]:
    """What a journal says, if it is this conversion's and whole; it is the program's own, so else: nothing."""
    try:
        if path.stat().st_size > _LONGEST:
            return {}
        said = json.loads(path.read_bytes())
        if said["key"] != key:
            return {}
        return {name: Finished(**one) for name, one in said["files"].items() if Path(name).name == name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write a file whole or not at all; returns its size and SHA-256. Raises OSError and what `pieces` raises."""
    part = path.with_name(path.name + ".part")
    digest, nbytes = hashlib.sha256(), 0
    with part.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            nbytes += len(piece)
        file.flush()
        os.fsync(file.fileno())
        _drop(file.fileno())
    part.replace(path)
    sync_folder(path.parent)
    return nbytes, digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file as it lies on disk: its pages are dropped from the cache first, where that can be."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        _drop(file.fileno())
        while piece := file.read(_PIECE):
            digest.update(piece)
        _drop(file.fileno())
    return digest.hexdigest()


def _drop(fd: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
