"""Streak: an expert that HOT tokens in a row chose is hot, until none of the last RING tokens did.

Cold experts go first, the least recently used one of them; if all are hot, the least recently used of all.
"""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from . import lru
from .ranking import least_of
from .state import CLOCK, MARK, ORDER, SEEN, USES

HOT = 5
RING = 20


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`. `uses` counts tokens in a row, `mark` is 1 for the hot."""
    lru.chosen(s, ids, held)
    s.counts[CLOCK] += 1
    now, row, seen = s.counts[CLOCK], s.cells[USES], s.cells[SEEN]
    for e in ids:
        row[e] = row[e] + 1 if seen[e] == now - 1 else 1
        seen[e] = now
        if row[e] >= HOT:
            s.cells[MARK, e] = 1


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    hot, seen = s.cells[MARK], s.cells[SEEN]
    for e in range(len(among)):
        if s.counts[CLOCK] - seen[e] >= RING:
            hot[e] = 0
    return least_of(hot, s.cells[ORDER], among)
