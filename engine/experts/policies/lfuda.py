"""LFUDA: least frequently used with dynamic aging.

An expert is worth its count plus the age of the cache when it was last used; whoever leaves sets the age to its own
worth. So old fame fades as the cache turns over, without a clock to tune. Counts outlive eviction (ghosts).
(Arlitt, Cherkasova et al., "Evaluating content management techniques for Web proxy caches", 2000.)
"""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from . import lru
from .ranking import least_of
from .state import AGE, ORDER, USES, WORTH


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    lru.chosen(s, ids, held)
    uses = s.cells[USES]
    for e in ids:
        uses[e] += 1
        s.values[WORTH, e] = s.sums[AGE] + uses[e]


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    e = least_of(s.values[WORTH], s.cells[ORDER], among)
    s.sums[AGE] = s.values[WORTH, e]
    return e
