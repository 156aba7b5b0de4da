"""The frame of long work that makes one new folder: a download, a conversion.

It is done by one program at a time, keeps what is finished when it is interrupted, and goes on from there when the same
command is given again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import EngineError
from .files import FileLock, reason, sync_folder


@contextmanager
def working_on(target: Path, suffix: str, doing: str) -> Iterator[None]:
    """Hold the lock of the work on `target`, a file beside it whose name ends in `suffix`; the folder above is made.

    doing: what is done with the target, "getting", to tell who comes second. Raises EngineError when another program
    is at it, and for every OSError of the work.
    """
    lock = FileLock(target.with_name(f".{target.name}{suffix}"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not lock.acquire(timeout=0.0):
            raise EngineError(f"{target}: another colibri-tui is {doing} it right now; wait for it")
        try:
            yield
        finally:
            lock.release()
        lock.path.unlink(missing_ok=True)
    except OSError as error:
        raise EngineError(
            f"{error.filename or target}: cannot be written ({reason(error)}); what is finished is kept, the same "
            "command goes on from there"
        ) from None


def refuse_taken(target: Path) -> None:
    """Raise EngineError when there is something at the target already; an empty folder may be."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise EngineError(f"{target}: there is something already; remove it or choose another name")


def put_in_place(folder: Path, target: Path) -> None:
    """Give a finished folder its name. Raises OSError."""
    if target.is_dir():
        target.rmdir()
    folder.replace(target)
    sync_folder(target.parent)
