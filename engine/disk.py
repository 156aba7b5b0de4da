"""How fast a disk gives what an engine asks of it: reads of an expert's size, anywhere in a model's files."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from .checkpoint.files import ALIGN, ModelFile
from .errors import ReadError
from .experts.reader import READERS
from .files import reason
from .kernels.memory import Block

SCRATCH: Final = 256 << 20
_SECONDS: Final = 2.0
_SLICES: Final = 10
"""Parts of that time; the middle one of their rates is taken, so that a disk that pauses once is not taken for slow."""


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """rate: bytes a second. nbytes: of a read. direct: past the page cache; if not, part of it may be memory speed."""

    rate: float
    nbytes: int
    direct: bool


def read_speed(files: Sequence[Path], nbytes: int, seconds: float = _SECONDS, readers: int = READERS) -> DiskSpeed:
    """Measure random reads of `nbytes`, by as many threads as the engine reads with. Raises ReadError."""
    nbytes = max(ALIGN, nbytes // ALIGN * ALIGN)
    try:
        sizes = {path: path.stat().st_size for path in files}
    except OSError as error:
        raise ReadError(f"{error.filename}: cannot be read ({reason(error)})") from None
    places = [(path, number * nbytes) for path, size in sizes.items() for number in range(size // nbytes)]
    if not places:
        raise ReadError(f"{files[0].parent if files else 'disk'}: no file is large enough to measure the disk with")
    random.Random(0).shuffle(places)
    opened = {path: ModelFile(path, direct=True) for path in sizes}
    blocks = [Block(nbytes) for _ in range(readers)]
    start = time.perf_counter()

    def read(number: int) -> list[tuple[float, float]]:
        times, at, now = [], number, time.perf_counter()
        while now < start + seconds:
            path, offset = places[at % len(places)]
            opened[path].read_span(offset, nbytes, blocks[number].view)
            before, now, at = now, time.perf_counter(), at + readers
            times.append((before - start, now - start))
        return times

    try:
        with ThreadPoolExecutor(readers) as pool:
            reads = [times for found in pool.map(read, range(readers)) for times in found]
        return DiskSpeed(nbytes * middle_rate(reads), nbytes, all(file.direct for file in opened.values()))
    finally:
        for file in opened.values():
            file.close()


def middle_rate(reads: Sequence[tuple[float, float]]) -> float:
    """Reads a second in the middle one of some slices of time, from when each began and ended (seconds from 0)."""
    began, ended = np.array(reads).T
    edges = np.linspace(0, ended.max(), _SLICES + 1)
    shares = np.clip(edges[:, None], began, ended) - began  # of each read, how long it had run at each edge
    done = (shares / np.maximum(ended - began, 1e-9)).sum(axis=1)
    return float(np.median(np.diff(done)) / (edges[1] - edges[0]))


@contextmanager
def scratch_file(folder: Path, nbytes: int = SCRATCH) -> Iterator[Path]:
    """A file to measure with, where there is no model yet; gone afterwards. Raises ReadError."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".disk-speed-") as file:
            piece = os.urandom(1 << 20)
            for _ in range(nbytes >> 20):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            yield Path(file.name)
    except OSError as error:
        raise ReadError(f"{folder}: cannot be written ({reason(error)})") from None
