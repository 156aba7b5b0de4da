"""Whether looking ahead pays on this machine: tried in turns with and without it, and decided by the clock.

Reading ahead helps where the disk would idle while a layer computes; it hurts where guesses take the place of reads
that are needed, or where the pauses cost more than they bring. Nobody knows before trying. No token depends on it.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

WINDOW = 8
"""Tokens in a row with or without; the first is not counted."""

WINDOWS = 4
"""Of each kind in a trial."""

BETTER = 0.97
"""Looking ahead must save this much of the time."""

PAUSE = 512
"""Tokens from a trial to the next."""


class Looking(NamedTuple):
    """Whether to look ahead: `pilot` to read what is foreseen, where that pays; `looka` to measure what could be."""

    pilot: bool = False
    looka: bool = False


class Trial:
    """`on` says whether to look ahead at the next token; `note` after each.

    gain: share of the time that it saved in the last trial, below 0 if it cost some; None before the first has ended.
    """

    def __init__(self) -> None:
        self.on = False
        self.gain: float | None = None
        self._times: dict[bool, list[float]] = {False: [], True: []}
        self._count = 0
        self._resting = 0

    def note(self, seconds: float) -> None:
        """A token took so long."""
        if self._resting:
            self._resting -= 1
            return
        if self._count % WINDOW:
            self._times[self.on].append(seconds)
        self._count += 1
        if self._count == 2 * WINDOWS * WINDOW:
            without, with_ = (statistics.median(self._times[on]) for on in (False, True))
            self.gain = 1 - with_ / without
            self.on = with_ < BETTER * without
            self._times = {False: [], True: []}
            self._count, self._resting = 0, PAUSE
        elif self._count % WINDOW == 0:
            self.on = not self.on
