"""Runs a command within a memory limit that the kernel enforces: its page cache counts, and going over means death."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


@contextmanager
def memory_limit(nbytes: int | None, name: str = "colibri-bench") -> Iterator[Path | None]:
    """A control group whose processes may use so many bytes, none for None. Needs the right to make one (root)."""
    if nbytes is None:
        yield None
        return
    first = _V1.is_dir()
    group = (_V1 if first else _V2) / f"{name}-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(nbytes))
        if not first:
            (group / "memory.swap.max").write_text("0")
        yield group
    finally:
        group.rmdir()


def run_in(group: Path | None, command: Sequence[str]) -> str:
    """Run a command in a control group and return what it printed. Raises CalledProcessError, its stderr with it."""

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=enter)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr[-2000:])
    return done.stdout


def drop_cached(path: Path) -> None:
    """Take a file, or all files of a folder, out of the page cache."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
