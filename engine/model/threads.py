"""How many threads a token is computed with.

More threads are faster on a quiet machine and slower on a busy one: they meet several times a layer, and wait there for
the one that has lost its core. A thread without a core uses no processor time, so the time the threads used tells
whether there may be something to gain; then a few tokens are computed with the other number now and then, and the
faster one stays. The number never changes a result.
"""

from __future__ import annotations

import statistics
from collections import deque

PROBE = 4
"""Tokens of a probe; the first is not counted."""

SOONEST, LATEST = 24, 384
"""Tokens between probes: doubled each time the choice is confirmed."""

BETTER = 0.93
"""A change must save this much of the time."""

BUSY = 0.9
"""All threads have their cores when they use this much of them; those that wait for each other a moment spin."""


class ThreadChoice:
    """Chooses between one thread and all of them, token by token: `count` before, `note` after each.

    settled: a number has been chosen, and no other one is being tried; `note` may then be left out for a while.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = most
        self._times: dict[int, deque[float]] = {most: deque(maxlen=PROBE * 2), 1: deque(maxlen=PROBE - 1)}
        self._busy: deque[float] = deque(maxlen=PROBE)
        self._left = PROBE
        self._pause = SOONEST
        self._probing = False
        self.settled = most == 1

    def note(self, seconds: float, used: float) -> None:
        """A token took so long with `count` threads, which used so many seconds of the processors together."""
        if self._most == 1:
            return
        self._times[self.count].append(seconds)
        self._busy.append(used / (seconds * self.count))
        self._left -= 1
        if self._left > 0:
            return
        if self._probing:
            self._decide()
        elif self.count == self._most and statistics.median(self._busy) >= BUSY:
            self._left, self.settled = PROBE, True
        else:
            self._probing, self.settled = True, False
            self._left = PROBE
            self.count = self._other
            self._times[self.count] = deque(maxlen=PROBE - 1)

    @property
    def _other(self) -> int:
        return 1 if self.count == self._most else self._most

    def _decide(self) -> None:
        """End a probe: stay with the probed number only if it is clearly faster."""
        probed, before = self.count, self._other
        faster = statistics.median(self._times[probed]) < BETTER * statistics.median(self._times[before])
        if not faster:
            self.count = before
        self._pause = SOONEST if faster else min(2 * self._pause, LATEST)
        self._left, self._probing, self.settled = self._pause, False, True
        self._times[self.count] = deque(self._times[self.count], maxlen=PROBE * 2)
