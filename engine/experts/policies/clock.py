"""CLOCK: first in, first out, but who was used since the hand last passed gets another round."""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from .ranking import first_in, next_tick
from .state import MARK, ORDER


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    for i in range(len(ids) - 1, -1, -1):
        e = ids[i]
        s.cells[MARK, e] = held[e]
        if not held[e]:
            s.cells[ORDER, e] = next_tick(s)


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    order, used = s.cells[ORDER], s.cells[MARK]
    while True:
        e = first_in(order, among)
        if not used[e]:
            return e
        used[e] = 0
        order[e] = next_tick(s)
