"""Files that must survive a kill, a full disk and a second copy of the program.

Three rules, kept here once. A file is replaced whole or not at all: the new text is written beside it,
forced to disk, and renamed over it. A file that cannot be used is moved aside under a new name, never
overwritten. Two programs that change the same file take turns by a lock that the system releases when its
holder dies.

All functions raise OSError as the system gives it; who calls knows what the file means to a person.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


LOCK_TIMEOUT = 10.0
"""Seconds to wait for another program's lock: far longer than any save takes, short enough to be noticed."""

_POLL = 0.02


class FileLock:
    """An exclusive lock between processes, held on a small file of its own that is never written.

    The lock file stays behind on purpose: removing it would let two programs hold "the" lock on two files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def acquire(self, timeout: float = LOCK_TIMEOUT) -> bool:
        """Take the lock and return True, or False if another holder kept it for `timeout` seconds."""
        deadline = time.monotonic() + timeout
        file = self.path.open("ab")
        try:
            while not _try_lock(file):
                if time.monotonic() >= deadline:
                    file.close()
                    return False
                time.sleep(_POLL)
        except BaseException:
            file.close()
            raise
        self._file = file
        return True

    def release(self) -> None:
        """Let go of the lock; nothing happens if it is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        """Take the lock; raises TimeoutError when another program does not let go of it."""
        if not self.acquire():
            raise TimeoutError(f"another program has held {self.path.name} for {LOCK_TIMEOUT:g} seconds")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def replace_file(path: Path, data: bytes, temporary: Path) -> None:
    """Make `data` the content of `path`, atomically: a reader sees the old file or the new one, whole.

    `temporary` lies in the same folder and must be no other writer's at this moment; what a dead writer left
    there is removed. After an error the old file is untouched and the temporary one is gone.
    """
    replace_written(path, temporary, lambda file: file.write(data))


def replace_written(path: Path, temporary: Path, write: Callable[[BinaryIO], object]) -> None:
    """Like `replace_file`, with what `write` puts into the file it is given: for data that is not all in one piece."""
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk where the system can.

    Best effort: the rename has happened and every reader sees it; only a power cut could undo it.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def move_aside(path: Path, word: str) -> Path:
    """Rename `path` to `<name>.<word>-<date>` beside it and return the new path; nothing is overwritten."""
    target = _reserve(path, word)
    path.replace(target)
    return target


def copy_aside(path: Path, word: str) -> Path:
    """Copy `path` to `<name>.<word>-<date>` beside it and return the copy's path; nothing is overwritten."""
    target = _reserve(path, word)
    try:
        shutil.copy2(path, target)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    return target


def _reserve(path: Path, word: str) -> Path:
    """Create an empty file under a name that was free, so that no other program can take the same one."""
    stem = f"{path.name}.{word}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while True:
        target = path.with_name(stem if number == 1 else f"{stem}-{number}")
        try:
            target.open("xb").close()
        except FileExistsError:
            number += 1
        else:
            return target


def skip_line(file: BinaryIO) -> None:
    """Read on behind the next newline."""
    while (part := file.readline(1 << 16)) and not part.endswith(b"\n"):
        pass


def reason(error: OSError) -> str:
    """Return why a file operation failed, in the system's words, such as 'No space left on device'."""
    return error.strerror or str(error)
