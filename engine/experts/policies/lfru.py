"""LFRU: frequency first, recency among equals, as colibrì ranks its experts.

score = heat * 256 + max(0, 255 - age), with the age in tokens. Heat halves every HALVE_TOKENS tokens.
"""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from .ranking import least_of
from .state import CLOCK, ORDER, SEEN, USES, WORTH

HALVE_TOKENS = 256


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    s.counts[CLOCK] += 1
    now, uses, seen = s.counts[CLOCK], s.cells[USES], s.cells[SEEN]
    for e in ids:
        uses[e] += 1
        seen[e] = now
    if now % HALVE_TOKENS == 0:
        for e in range(len(held)):
            uses[e] >>= 1


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    now, uses, seen, score = s.counts[CLOCK], s.cells[USES], s.cells[SEEN], s.values[WORTH]
    for e in range(len(among)):
        age = now - seen[e]
        score[e] = uses[e] * 256 + (255 - age if age < 255 else 0)
    return least_of(score, s.cells[ORDER], among)
