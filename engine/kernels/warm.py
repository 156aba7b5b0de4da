"""Compiles the kernels, once per machine and version, telling how far it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from . import CACHE_FOLDER, cache, parts
from .helpers import compile_parts
from .listening import listening

FUNCTIONS = 127
"""How many functions of the engine are compiled, each for every combination of arguments it is called with."""

Progress = Callable[[int, int], None]
"""(done, total); called after each function that is compiled. Done never falls, and is total once at the end."""

MOST_PROCESSES = 3
"""More than that wait for each other."""

_compiled = set[str]()
"""What was compiled for this process, here or elsewhere; two processes may compile the same function."""

_given_up = set[Path]()
"""Folders that other processes failed to fill."""


def _counting(progress: Progress) -> Callable[[str], None]:
    def compiled(name: str) -> None:
        if name not in _compiled:
            _compiled.add(name)
            progress(min(len(_compiled), FUNCTIONS - 1), FUNCTIONS)

    return compiled


def compile_ahead(progress: Progress, processes: int) -> None:
    """Compile everything in so many processes, unless that was done before; `compile_here` does what they fail at."""
    if processes == 0 or CACHE_FOLDER in _given_up or cache.is_complete(CACHE_FOLDER):
        return
    if compile_parts(parts.PARTS, processes, CACHE_FOLDER, _counting(progress)):
        cache.mark_complete(CACHE_FOLDER)
    else:
        _given_up.add(CACHE_FOLDER)


def compile_here(calls: Iterable[Callable[[], None]], progress: Progress) -> None:
    """Call what needs compiled functions: they are loaded, or compiled where they are missing."""
    with listening(_counting(progress)):
        for call in calls:
            call()
    if _compiled:
        _compiled.clear()
        progress(FUNCTIONS, FUNCTIONS)


def useful_processes() -> int:
    """How many processes compile faster than fewer, if there is memory for them."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_PROCESSES, processors)


def main() -> None:
    """`python -m engine.kernels.warm`: compile everything now, for packagers and tests."""

    def tell(done: int, total: int) -> None:
        print(f"\rcompiling kernels {done}/{total}", end="", flush=True)

    compile_ahead(tell, useful_processes())
    compile_here([parts.program, parts.sampling], tell)
    print()


if __name__ == "__main__":
    main()
