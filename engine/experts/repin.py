"""Repin: between turns, experts that became hot take the place of pinned ones that went cold.

The rules are colibrì's. A pass looks at every layer's coldest pinned and hottest other expert and swaps them if the
other one is clearly hotter; it makes a few swaps at most, and afterwards all heat is halved. That heat is this
module's own: the counts of the history are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..board import Board

SWAPS_MAX = 4

Heat = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Swap(NamedTuple):
    """An expert to pin and the one that makes room, with their heat."""

    out: int
    expert: int
    out_heat: int
    heat: int


def pick_swap(heat: Heat, pinned: Flags) -> Swap | None:
    """The swap of a layer that is worth it: the other's heat > f + f / 4 + 4, f being the coldest pinned one's.

    heat: [experts]. pinned: bool [experts]. First ones win on ties; who has no heat is never pinned.
    """
    return _pick(heat, heat, pinned, 4)


def pick_swap_lfru(heat: Heat, age: Heat, pinned: Flags) -> Swap | None:
    """Like `pick_swap`, by a score that breaks ties by recency: heat * 256 + max(0, 255 - age).

    age: [experts], forwards since the last use.
    """
    return _pick((heat << 8) | np.maximum(0, 255 - age), heat, pinned, 1024)


def _pick(score: Heat, heat: Heat, pinned: Flags, margin: int) -> Swap | None:
    candidates = np.flatnonzero(~pinned & (heat > 0))
    holders = np.flatnonzero(pinned)
    if not len(candidates) or not len(holders):
        return None
    out = int(holders[np.argmin(score[holders])])
    expert = int(candidates[np.argmax(score[candidates])])
    if score[expert] <= score[out] + (score[out] >> 2) + margin:
        return None
    return Swap(out, expert, int(heat[out]), int(heat[expert]))


class Repinner:
    """Decides when to swap what. `lfru`: rank by heat and recency instead of heat alone."""

    def __init__(self, board: Board, every: int, lfru: bool) -> None:
        self._board, self._every, self._lfru = board, every, lfru
        self._heat = np.zeros(board.heat.shape, np.int64)
        self._counted = board.heat.astype(np.int64)
        self._tokens = 0

    def restart(self) -> None:
        """The board's heat was replaced: count from there."""
        self._counted = self._board.heat.astype(np.int64)

    def swaps(self, tokens: int, clock: int, pinned: Flags) -> Iterator[tuple[int, Swap]]:
        """A turn is over; yield the swaps to make now, by layer: none, or a pass's worth, the greatest gain first.

        tokens: of the turn. clock: forwards so far. pinned: bool [layers, experts].
        """
        self._tokens += tokens
        if self._tokens < self._every:
            return
        self._tokens = 0
        now = self._board.heat.astype(np.int64)
        self._heat += np.maximum(0, now - self._counted)
        self._counted = now
        age = clock - self._board.last_use.astype(np.int64)
        found = []
        for layer in np.flatnonzero(pinned.any(axis=1)).tolist():
            heat = self._heat[layer]
            swap = pick_swap_lfru(heat, age[layer], pinned[layer]) if self._lfru else pick_swap(heat, pinned[layer])
            if swap is not None:
                found.append((layer, swap))
        self._heat >>= 1
        found.sort(key=lambda item: item[1].out_heat - item[1].heat)
        yield from found[:SWAPS_MAX]
