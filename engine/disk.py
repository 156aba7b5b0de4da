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

from .checkpoint.files import ALIGN, ModelFile
from .errors import ReadError
from .experts.reader import READERS
from .files import reason
from .kernels.memory import Block

SCRATCH: Final = 256 << 20
_SECONDS: Final = 1.0


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
    end = time.perf_counter() + seconds

    def read(number: int) -> int:
        done, at = 0, number
        while time.perf_counter() < end:
            path, offset = places[at % len(places)]
            opened[path].read_span(offset, nbytes, blocks[number].view)
            done, at = done + nbytes, at + readers
        return done

    try:
        before = time.perf_counter()
        with ThreadPoolExecutor(readers) as pool:
            done = sum(pool.map(read, range(readers)))
        elapsed = time.perf_counter() - before
        return DiskSpeed(done / elapsed, nbytes, all(file.direct for file in opened.values()))
    finally:
        for file in opened.values():
            file.close()


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
