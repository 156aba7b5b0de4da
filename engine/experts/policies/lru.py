"""LRU: the least recently used expert goes.

Within a token the order of use is from the weakest gate to the strongest: of two experts that one token chose, the
stronger is the likelier to be chosen again.
"""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from .ranking import first_in, next_tick
from .state import ORDER


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    for i in range(len(ids) - 1, -1, -1):
        s.cells[ORDER, ids[i]] = next_tick(s)


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    return first_in(s.cells[ORDER], among)
