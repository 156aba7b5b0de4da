"""What a route trace says about a model's use of its experts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .trace_reader import Ints, Lines

COVERED = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of all choices for which `LayerStats.cover` tells how many experts they take."""


@dataclass(slots=True)
class LayerStats:
    """One layer. counts: how often each expert was chosen. first: the token that chose it first, -1 for none.

    forwards, tokens: how many there were; prefills: forwards of more than one token.
    """

    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    forwards: int = 0
    tokens: int = 0
    prefills: int = 0

    @property
    def choices(self) -> int:
        """All choices of all tokens."""
        return int(self.counts.sum())

    @property
    def used(self) -> int:
        """How many experts were chosen at all."""
        return int(np.count_nonzero(self.counts))

    @property
    def entropy(self) -> float:
        """Entropy of the choices over that of equal use of the experts known, 0..1: 1 is a flat layer."""
        share = self.counts[self.counts > 0] / max(1, self.choices)
        return float(-(share * np.log(share)).sum() / np.log(len(self.counts))) if len(self.counts) > 1 else 1.0

    @property
    def top_quarter(self) -> float:
        """Share of the choices that went to the most used quarter of the experts, 0..1."""
        best = np.sort(self.counts)[::-1][: max(1, len(self.counts) // 4)]
        return float(best.sum() / max(1, self.choices))

    def cover(self, share: float) -> int:
        """The fewest experts that carry this share of the choices."""
        running = np.cumsum(np.sort(self.counts)[::-1])
        return int(np.searchsorted(running, share * running[-1] - 1e-9) + 1)

    def touched(self, tokens: int) -> int:
        """How many different experts the first so many tokens chose."""
        return int(np.count_nonzero((self.first >= 0) & (self.first < tokens)))


class TraceStats:
    """Gathers while a trace is read; `add` takes its lines in order. layers: by index."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerStats] = {}
        self._call = self._rows = -1

    def add(self, lines: Lines) -> None:
        """Take the next lines."""
        if not len(lines.call):
            return
        sizes = np.diff(lines.start)
        new = np.diff(lines.call, prepend=self._call) != 0
        self._count_prefills(lines, new)
        for layer in np.unique(lines.layer).tolist():
            mine = lines.layer == layer
            stats = self.layers.setdefault(layer, LayerStats())
            ids = lines.ids[np.repeat(mine, sizes)]
            token = stats.tokens + np.repeat(np.arange(np.count_nonzero(mine)), sizes[mine])
            _grow(stats, int(ids.max()) + 1)
            stats.counts += np.bincount(ids, minlength=len(stats.counts))
            chosen, at = np.unique(ids, return_index=True)
            fresh = stats.first[chosen] < 0
            stats.first[chosen[fresh]] = token[at[fresh]]
            stats.tokens += int(np.count_nonzero(mine))
            stats.forwards += int(np.count_nonzero(new & mine))

    def _count_prefills(self, lines: Lines, new: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """A forward is a prefill when a second row of it comes, in this block of lines or the next."""
        second = ~new & np.append(self._rows == 1, new[:-1])
        for layer, count in zip(*np.unique(lines.layer[second], return_counts=True), strict=True):
            self.layers.setdefault(int(layer), LayerStats()).prefills += int(count)
        starts = np.flatnonzero(new)
        self._rows = len(new) - int(starts[-1]) if len(starts) else self._rows + len(new)
        self._call = int(lines.call[-1])


def _grow(stats: LayerStats, experts: int) -> None:
    missing = experts - len(stats.counts)
    if missing > 0:
        stats.counts = np.append(stats.counts, np.zeros(missing, np.int64))
        stats.first = np.append(stats.first, np.full(missing, -1, np.int64))
