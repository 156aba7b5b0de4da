"""How fast a long piece of work goes, and how long it will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from .render.units import seconds, size

WINDOW_S: Final = 20.0
"""The speed is that of so many seconds, so that one slow minute does not spoil the rest of the estimate."""

_SETTLED_S: Final = 1.0


class Pace:
    """The speed of one stage at a time, in bytes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._seen: deque[tuple[float, int]] = deque()

    def told(self, stage: str, done: int, total: int) -> str:
        """Take note of progress; return it in words: 'converting 1.2 of 60 GB (2 %), 200 MB/s, 4 min 54 s left'."""
        now = self._clock()
        if stage != self._stage or (self._seen and done < self._seen[-1][1]):
            self._stage = stage
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        if not total:
            return stage
        text = f"{stage} {size(done)} of {size(total)} ({100 * done // total} %)"
        elapsed, moved = now - self._seen[0][0], done - self._seen[0][1]
        if elapsed < _SETTLED_S or moved <= 0 or done >= total:
            return text
        speed = moved / elapsed
        return f"{text}, {size(speed)}/s, {seconds((total - done) / speed)} left"
