"""Small steps that several policies share."""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from .state import TICKS


@inner
def next_tick(s: Any) -> int:
    """The layer's next sequence number: 1, 2, 3, ..."""
    s.counts[TICKS] += 1
    return s.counts[TICKS]


@inner
def first_in(order: Any, among: Any) -> int:
    """The expert that comes first by `order`, of those set in `among` (at least one)."""
    best = -1
    for e in range(len(among)):
        if among[e] and (best < 0 or order[e] < order[best]):
            best = e
    return best


@inner
def least_of(worth: Any, order: Any, among: Any) -> int:
    """The expert that is worth least, the first by `order` on ties, of those set in `among` (at least one)."""
    best = -1
    for e in range(len(among)):
        if among[e] and (best < 0 or worth[e] < worth[best] or (worth[e] == worth[best] and order[e] < order[best])):
            best = e
    return best
