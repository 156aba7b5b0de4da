"""Where compiled kernels are kept.

numba's own cache notices a change of the file that defines a function, but not of the files whose functions it calls;
the machine code would be stale without a word. So the cache folder is keyed by a hash of every compiled source, of the
versions of Python, numba and llvmlite, and of the processor; other keys are pruned when they have not been used for a
while. numba takes no code of a source that lies elsewhere or has another date, so the same sources installed anew are
another key too: what is marked as complete is what numba will find. `prepare` must run before the first kernel is
defined, and `engine.kernels` sees to that.

Several processes may compile into one folder (see `helpers`). numba replaces its files whole, so that a process that is
killed leaves none cut off; but two that add to one function's index at once would lose an entry, or worse, give it the
other's code. So they take turns.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm
import numba
import platformdirs
from numba.core.caching import IndexDataCacheFile

KEEP_DAYS = 30
"""Caches of other versions and processors (a shared home) go when unused for so long."""


FOLDER_VARIABLE = "COLIBRI_KERNELS"
"""Tells a helper where the process that started it keeps its kernels."""

_COMPLETE = "complete"
"""A file that says that everything is in the folder."""

_COMPILED = ("kernels", "experts/policies")
"""Folders of the engine whose functions are compiled and call each other."""


def source_hash(engine: Path) -> str:
    """The key of the sources in this folder, as they are installed here, and of what compiles them."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in _COMPILED for path in (engine / folder).glob("*.py")):
        digest.update(f"{path.absolute()}\0{path.stat().st_mtime_ns}\0".encode())
        digest.update(path.read_bytes())
    features = ",".join(sorted(name for name, on in llvm.get_host_cpu_features().items() if on))
    for part in (
        sys.version, numba.__version__, llvmlite.__version__, llvm.get_host_cpu_name(), features,
        os.environ.get("COLIBRI_ISA", ""), os.environ.get("NUMBA_CPU_NAME", ""),
    ):  # fmt: skip
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """The folder that holds one folder per key; `COLIBRI_TUI_HOME` moves it."""
    home = os.environ.get("COLIBRI_TUI_HOME")
    root = Path(home) / "cache" if home else Path(platformdirs.user_cache_dir("colibri-tui", appauthor=False))
    return root / "kernels"


def prepare() -> Path:
    """Point numba at this version's cache folder, creating it; returns the folder.

    Where nothing can be written below the user's cache folder, a temporary folder serves for this run.
    """
    told = os.environ.get(FOLDER_VARIABLE)
    folder = Path(told) if told else _own_folder()
    numba.config.CACHE_DIR = str(folder)
    _take_turns(folder, tolerant=told is None)
    return folder


def is_complete(folder: Path) -> bool:
    """Whether everything was compiled before."""
    return (folder / _COMPLETE).exists()


def mark_complete(folder: Path) -> None:
    """Note that everything has been compiled."""
    with contextlib.suppress(OSError):
        (folder / _COMPLETE).touch()


def _own_folder() -> Path:
    root = cache_root()
    folder = root / source_hash(Path(__file__).parents[1])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass  # it can be written to
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="colibri-kernels-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        _prune(root, folder)
    return folder


_SAVE: Final[Any] = IndexDataCacheFile.save


def _take_turns(folder: Path, tolerant: bool) -> None:
    """Let one process at a time add to the folder. tolerant: what cannot be kept, for want of space, is done without.

    A helper is not tolerant: what it does not keep, nobody gets.
    """

    def save(self: Any, key: Any, data: Any) -> None:
        with (
            contextlib.suppress(OSError) if tolerant else contextlib.nullcontext(),
            (folder / "lock").open("ab") as lock,
        ):
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            _SAVE(self, key, data)

    IndexDataCacheFile.save = save


def _prune(root: Path, keep: Path) -> None:
    horizon = time.time() - KEEP_DAYS * 86400
    for other in root.iterdir():
        if other != keep and other.is_dir() and other.stat().st_mtime < horizon:
            shutil.rmtree(other, ignore_errors=True)
