"""S3-FIFO: a small queue filters what is used once, a main queue keeps the rest, ghosts are remembered.

Newcomers join the small queue (a tenth of the cache), or the main one if they left so lately that they are remembered
as ghosts. At the head of the small queue, who was used twice more moves to the main queue and the others leave; at the
head of the main queue, who was used gets another round and loses a use. (Yang et al., "FIFO queues are all you need for
cache eviction", SOSP 2023.)
"""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from .ranking import next_tick
from .state import CLOCK, MARK, ORDER, SEEN, USES

SMALL_SHARE = 0.1
USES_MAX = 3
SMALL, MAIN = 0, 1


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`. The clock counts those who left; `seen` is its value when an expert last did."""
    uses, left = s.cells[USES], s.cells[SEEN]
    ghosts = 0
    for e in range(len(held)):
        ghosts += held[e]
    for i in range(len(ids) - 1, -1, -1):
        e = ids[i]
        if held[e]:
            if uses[e] < USES_MAX:
                uses[e] += 1
            continue
        ghost = left[e] > 0 and s.counts[CLOCK] - left[e] < ghosts
        s.cells[MARK, e] = MAIN if ghost else SMALL
        s.cells[ORDER, e] = next_tick(s)
        uses[e] = 0


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    order, uses, queue = s.cells[ORDER], s.cells[USES], s.cells[MARK]
    while True:
        held, small, in_small, in_main = 0, 0, -1, -1
        for e in range(len(among)):
            if among[e]:
                held += 1
                if queue[e] == SMALL:
                    small += 1
                    if in_small < 0 or order[e] < order[in_small]:
                        in_small = e
                elif in_main < 0 or order[e] < order[in_main]:
                    in_main = e
        from_small = in_main < 0 or (in_small >= 0 and small >= SMALL_SHARE * held)
        e = in_small if from_small else in_main
        if uses[e] <= from_small:
            s.counts[CLOCK] += 1
            s.cells[SEEN, e] = s.counts[CLOCK]
            return e
        uses[e] = 0 if from_small else uses[e] - 1
        queue[e] = MAIN
        order[e] = next_tick(s)
