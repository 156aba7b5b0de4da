"""Where compiled kernels are kept.

numba's own cache notices a change of the file that defines a function, but not of the files whose functions it calls;
the machine code would be stale without a word. So the cache folder is keyed by a hash of every compiled source, of the
versions of Python, numba and llvmlite, and of the processor; other keys are pruned when they have not been used for a
while. `prepare` must run before the first kernel is defined, and `engine.kernels` sees to that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numba
import platformdirs

KEEP_DAYS = 30
"""Caches of other versions and processors (a shared home) go when unused for so long."""


_COMPILED = ("kernels", "experts/policies")
"""Folders of the engine whose functions are compiled and call each other."""


def _source_hash() -> str:
    digest = hashlib.sha256()
    engine = Path(__file__).parents[1]
    for path in sorted(path for folder in _COMPILED for path in (engine / folder).glob("*.py")):
        digest.update(path.relative_to(engine).as_posix().encode())
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
    root = cache_root()
    folder = root / _source_hash()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass  # it can be written to
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="colibri-kernels-"))
    else:
        _prune(root, folder)
    numba.config.CACHE_DIR = str(folder)
    return folder


def _prune(root: Path, keep: Path) -> None:
    horizon = time.time() - KEEP_DAYS * 86400
    for other in root.iterdir():
        if other != keep and other.is_dir() and other.stat().st_mtime < horizon:
            shutil.rmtree(other, ignore_errors=True)
