"""LFU: the expert with the fewest uses goes, the least recently used one on ties. Counts never fade."""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from . import lru
from .ranking import least_of
from .state import ORDER, USES


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    lru.chosen(s, ids, held)
    for e in ids:
        s.cells[USES, e] += 1


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    return least_of(s.cells[USES], s.cells[ORDER], among)
