"""Compiles the kernels, once per machine and version, telling how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import event

from . import program
from .records import OP, STATE_CELLS, TABLE_TYPES, Tables

KERNELS = 49
"""Functions that one program compiles; only the progress line depends on it."""


class _Listener(event.Listener):
    """Counts finished compilations."""

    def __init__(self, progress: Callable[[int, int], None]) -> None:
        self._progress, self._seen = progress, set[str]()

    def on_start(self, event: Any) -> None:
        """Nothing is told at the start."""

    def on_end(self, event: Any) -> None:
        self._seen.add(str(event.data["dispatcher"]))
        self._progress(min(len(self._seen), KERNELS - 1), KERNELS)


def compile_kernels(progress: Callable[[int, int], None]) -> None:
    """Make sure every kernel is compiled; `progress(done, total)` is called after each. Instant when cached."""
    listener = _Listener(progress)
    event.register("numba:compile", listener)
    try:
        program.run(
            np.zeros(1, OP), Tables(**{name: np.zeros(1, dtype) for name, dtype in TABLE_TYPES.items()}),
            np.zeros(STATE_CELLS, np.int64), 0, 0, 0, 1, 0,
        )  # fmt: skip
    finally:
        event.unregister("numba:compile", listener)
    progress(KERNELS, KERNELS)


def main() -> None:
    """`python -m engine.kernels.warm`: compile everything now, for packagers and tests."""
    compile_kernels(lambda done, total: print(f"\rcompiling kernels {done}/{total}", end="", flush=True))
    print()


if __name__ == "__main__":
    main()
