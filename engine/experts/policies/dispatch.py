"""One entry for all policies: what a forward chose goes in, who stays in memory comes out.

The engine and the simulator call the same compiled code, so a replayed trace hits and misses exactly as the run that
wrote it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from ...kernels.compiled import inlined, native
from . import auto, clock, lfru, lfu, lfuda, lru, s3fifo, streak
from .state import AMONG

AUTO: Final = 0
LRU: Final = 1
LFU: Final = 2
LFUDA: Final = 3
LFRU: Final = 4
S3FIFO: Final = 5
CLOCK: Final = 6
STREAK: Final = 7


@inlined
def _chosen(policy: int, s: Any, ids: Any, near: Any, held: Any) -> None:
    if policy == AUTO:
        auto.chosen(s, ids, near, held)
    elif policy == LRU:
        lru.chosen(s, ids, held)
    elif policy == LFU:
        lfu.chosen(s, ids, held)
    elif policy == LFUDA:
        lfuda.chosen(s, ids, held)
    elif policy == LFRU:
        lfru.chosen(s, ids, held)
    elif policy == S3FIFO:
        s3fifo.chosen(s, ids, held)
    elif policy == CLOCK:
        clock.chosen(s, ids, held)
    else:
        streak.chosen(s, ids, held)


@inlined
def _victim(policy: int, s: Any, among: Any) -> int:
    if policy == AUTO:
        return auto.victim(s, among)
    if policy == LRU:
        return lru.victim(s, among)
    if policy == LFU:
        return lfu.victim(s, among)
    if policy == LFUDA:
        return lfuda.victim(s, among)
    if policy == LFRU:
        return lfru.victim(s, among)
    if policy == S3FIFO:
        return s3fifo.victim(s, among)
    if policy == CLOCK:
        return clock.victim(s, among)
    return streak.victim(s, among)


@inlined
def note(policy: int, s: Any, ids: Any, near: Any, held: Any) -> None:
    """A token of the running forward chose `ids`, int32, strongest first. They count as held from now on.

    near: int32 [NEAR or 0, k], what it chose in the layers before, the next one last; -1 behind the last of each.
    held: bool [experts], in memory before, or needed by a token before this one.
    """
    _chosen(policy, s, ids, near, held)
    for e in ids:
        held[e] = True


@native
def settle(policy: int, s: Any, held: Any, needed: Any, pinned: Any, cap: int) -> None:
    """End a forward: leave in `held` who stays, the pinned and at most `cap` others.

    needed: bool [experts], what the forward's tokens chose. pinned: bool [experts].
    """
    if policy == AUTO:
        auto.decide(s, needed, pinned, cap)
    among = s.cells[AMONG]
    count = 0
    for e in range(len(held)):
        among[e] = held[e] and not pinned[e]
        count += among[e]
    for _ in range(count - cap):
        out = _victim(policy, s, among)
        among[out] = 0
        held[out] = False


@njit(cache=True, nogil=True)
def forwards(
    policy: int, s: Any, ids: Any, kept: Any, near: Any, singles: int, held: Any, pinned: Any, cap: int
) -> None:
    """Forwards whose tokens chose ids[row, :kept[row]]: leave in `held` who stays when they are over.

    The first `singles` rows are forwards of one token each, the others are one forward. ids: int32 [rows, k],
    strongest first. kept: int32 [rows]. near: int32 [rows, NEAR, k], see `note`. held, pinned: bool [experts].
    """
    needed = np.zeros(len(held), np.bool_)
    for row in range(len(ids)):
        chosen = ids[row, : kept[row]]
        for e in chosen:
            needed[e] = True
        note(policy, s, chosen, near[row], held)
        if row < singles or row == len(ids) - 1:
            settle(policy, s, held, needed, pinned, cap)
            needed[:] = False
