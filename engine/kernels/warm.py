"""Compiles the kernels, once per machine and version, telling how far it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import event
from numba.core.dispatcher import Dispatcher

from . import program
from .draw import draw
from .records import OP, STATE_CELLS, TABLE_TYPES, Tables


class _Listener(event.Listener):
    """Counts finished compilations."""

    def __init__(self, functions: int, progress: Callable[[int, int], None]) -> None:
        self._functions, self._progress, self._seen = functions, progress, set[str]()

    def on_start(self, event: Any) -> None:
        """Nothing is told at the start."""

    def on_end(self, event: Any) -> None:
        self._seen.add(str(event.data["dispatcher"]))
        self._progress(min(len(self._seen), self._functions - 1), self._functions)


def compile_all(call: Callable[[], None], functions: int, progress: Callable[[int, int], None]) -> None:
    """Call something that makes numba compile about so many functions; `progress(done, total)` after each."""
    listener = _Listener(functions, progress)
    event.register("numba:compile", listener)
    try:
        call()
    finally:
        event.unregister("numba:compile", listener)
    progress(functions, functions)


def _kernels() -> int:
    """About how many functions a program compiles: all that the loaded modules define."""
    modules = [module for name, module in sys.modules.items() if name.startswith("engine.kernels.")]
    return len({id(value) for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)})


def compile_kernels(progress: Callable[[int, int], None]) -> None:
    """Make sure every kernel is compiled; `progress(done, total)` is called after each. Instant when cached."""

    def call() -> None:
        program.run(
            np.zeros(1, OP), Tables(**{name: np.zeros(1, dtype) for name, dtype in TABLE_TYPES.items()}),
            np.zeros(STATE_CELLS, np.int64), 0, 0, 0, 1, 0,
        )  # fmt: skip
        draw(np.zeros(1, np.float32).ctypes.data, 1, 0.0, 1.0, 1.0, 0.0)

    compile_all(call, _kernels(), progress)


def main() -> None:
    """`python -m engine.kernels.warm`: compile everything now, for packagers and tests."""
    compile_kernels(lambda done, total: print(f"\rcompiling kernels {done}/{total}", end="", flush=True))
    print()


if __name__ == "__main__":
    main()
