"""What Ctrl+C does while a turn runs in this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from engine.worker import EngineLike


@contextmanager
def stopping(engine: EngineLike) -> Iterator[list[bool]]:
    """Let Ctrl+C end the turn, and a second one the program. Yields a list that is empty until then."""
    interrupted: list[bool] = []

    def stop(_signal: int, _frame: FrameType | None) -> None:
        interrupted.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        engine.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
