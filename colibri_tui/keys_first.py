"""Keys before pictures: what moves on the screen by itself waits a moment when somebody types.

The screen has one thread. A key that finds it drawing a map of the experts waits for that; but once the key is there,
nothing else needs to be begun before its letter is on the screen.
"""

from __future__ import annotations

import time
from typing import Final, Protocol, runtime_checkable

HOLD_SECONDS: Final = 0.025
"""A letter is on the screen about this long after its key. It is shorter than the time between two keys of one that is
held down (33 ms): what moves by itself goes on meanwhile."""


@runtime_checkable
class Typist(Protocol):
    """An application that knows when a key was pressed last."""

    typed: float
    """`time.monotonic()` of the last key."""


def hold(app: object) -> float:
    """Return how many seconds whatever is no answer to a key should wait, 0 for not at all."""
    return max(0.0, app.typed + HOLD_SECONDS - time.monotonic()) if isinstance(app, Typist) else 0.0
