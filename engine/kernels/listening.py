"""Hearing of every function that numba compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class _Listener(event.Listener):
    def __init__(self, compiled: Callable[[str], None]) -> None:
        self._compiled = compiled

    def on_start(self, event: Any) -> None:
        """Nothing is told at the start."""

    def on_end(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if not function.__module__.startswith("numba."):  # what it brings along does not count
            self._compiled(f"{function.__module__}.{function.__qualname__}{event.data['args']}")


@contextmanager
def listening(compiled: Callable[[str], None]) -> Iterator[None]:
    """Tell `compiled` of every function of ours that is compiled: its name and the types of its arguments."""
    listener = _Listener(compiled)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
