"""Which way of looking ahead pays on this machine: all are tried in turns, and none too; the clock decides.

Reading ahead helps where the disk would idle while a layer computes; it hurts where guesses take the place of reads
that are needed, or where the pauses cost more than they bring. Nobody knows before trying. No token depends on it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ..board import Foreseer

WINDOW = 8
"""Tokens in a row in one way; the first is not counted."""

WINDOWS = 4
"""Of each way in a trial."""

BETTER = 0.97
"""Looking ahead must save this much of the time."""

SOONEST, LATEST = 512, 8192
"""Tokens from a trial to the next: doubled each time the choice is confirmed."""


class Looking(NamedTuple):
    """Whether to look ahead: `pilot` to read what is foreseen, where that pays; `looka` to measure what could be.

    by: what to go by, the word of an option; None: what pays most.
    """

    pilot: bool = False
    by: str | None = None
    looka: bool = False

    @property
    def ways(self) -> list[Foreseer]:
        """What is to be tried."""
        return [way for way in Foreseer if way and self.by in (None, way.name.lower())]


class Trial:
    """`by` says what to go by at the next token, NONE: do not look ahead; `note` after each.

    gain: share of the time that the best way saved in the last trial, below 0 if it cost some; None before the first
    has ended.
    """

    def __init__(self, ways: Sequence[Foreseer]) -> None:
        self._ways = [Foreseer.NONE, *ways]
        self.by = Foreseer.NONE
        self.gain: float | None = None
        self._times: dict[Foreseer, list[float]] = {way: [] for way in self._ways}  # each window's, one after another
        self._count = 0
        self._resting = 0
        self._pause = SOONEST
        self._chosen: Foreseer | None = None  # by the last trial

    @property
    def under_way(self) -> bool:
        """Whether the ways are being tried just now."""
        return not self._resting

    def note(self, seconds: float) -> None:
        """A token took so long."""
        if self._resting:
            self._resting -= 1
            if not self._resting:
                self.by = Foreseer.NONE
            return
        if self._count % WINDOW:
            self._times[self.by].append(seconds)
        self._count += 1
        if self._count == len(self._ways) * WINDOWS * WINDOW:
            self._decide()
        else:
            self.by = self._ways[self._count // WINDOW % len(self._ways)]

    def _decide(self) -> None:
        took = {way: self._share(way) for way in self._ways[1:]}
        best = min(took, key=took.__getitem__)
        self.gain = 1 - took[best]
        self.by = best if took[best] < BETTER else Foreseer.NONE
        self._pause = min(2 * self._pause, LATEST) if self.by == self._chosen else SOONEST
        self._chosen = self.by
        self._times = {way: [] for way in self._ways}
        self._count, self._resting = 0, self._pause

    def _share(self, way: Foreseer) -> float:
        """A way's time beside that of doing without, in the windows just before: a disk's speed changes in seconds."""
        windows = zip(self._windows(way), self._windows(Foreseer.NONE), strict=True)
        return statistics.median(took / without for took, without in windows)

    def _windows(self, way: Foreseer) -> list[float]:
        times, width = self._times[way], WINDOW - 1
        return [statistics.median(times[at : at + width]) for at in range(0, len(times), width)]
