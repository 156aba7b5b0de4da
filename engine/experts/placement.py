"""Which expert lies in which slot of the arena.

One arena, allocated once, cut into slots of one expert each: some for pinned experts, `cap` for the cache of every
layer, and a few more for experts on their way through. The labels move, the bytes never do: an expert that was read
into any free slot is cached or pinned by calling it so, and leaves by being forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, Tier
from ..kernels.memory import Block
from .policies import POLICIES, forwards, make_state, settle
from .policies.state import ORDER
from .recent import RecentChoices

EMPTY = -1
LOG_ROWS = 256

Flags = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]


class Choices(NamedTuple):
    """What the tokens of a forward chose in a layer: ids [rows, k], strongest first, of which kept [rows] count."""

    ids: Int32s
    kept: Int32s


class RouteLog:
    """Choices of one token each that needed no read, noted by native code until the policy is told of them.

    That way a token whose experts are all in memory costs no Python. ids: int32 [layers, room * top_k], where a layer's
    rows are as wide as its tokens' choices. kept: int32 [layers, room]. count: int64 [layers], rows noted. room 0:
    nothing is noted.
    """

    def __init__(self, layers: int, room: int, top_k: int) -> None:
        self.room = room
        self.ids = np.zeros((layers, room * top_k), np.int32)
        self.kept = np.zeros((layers, room), np.int32)
        self.count = np.zeros(layers, np.int64)

    def take(self, layer: int, width: int) -> Choices:
        """The rows of a layer, in order; they are overwritten when the next one is noted."""
        rows, self.count[layer] = int(self.count[layer]), 0
        return Choices(self.ids[layer, : rows * width].reshape(rows, width), self.kept[layer, :rows])


class Placement:
    """The arena and its slots.

    slot_of: int32 [layers, experts], the slot of an expert in memory or EMPTY. pinned: bool [layers, experts], meant to
    be pinned, in memory already or not. reserved: by layer, expert -> slot: set aside for what is yet to be loaded in
    the background, pinned or not. recent: what the last tokens chose.

    `pins` slots are for the pinned, `cap` for every layer's others; what is left of `slots` serves all layers, so there
    is always at least one that a layer may read into.
    """

    def __init__(
        self, board: Board, slots: int, slot_bytes: int, cap: int, top_k: int = 1, policy: str = "auto"
    ) -> None:
        self.cap, self.slots, self.slot_bytes = cap, slots, slot_bytes
        self.arena = Block(slots * slot_bytes)
        self.slot_of = np.full((board.layers, board.experts), EMPTY, np.int32)
        self.pinned = np.zeros((board.layers, board.experts), np.bool_)
        self.reserved: list[dict[int, int]] = [{} for _ in range(board.layers)]
        self.holds_all = cap >= board.experts  # then no policy is needed
        self.log = RouteLog(board.layers, 0 if self.holds_all else LOG_ROWS, top_k)
        self.recent = RecentChoices(board.layers, top_k)
        self._board = board
        self._free = list(range(slots - 1, -1, -1))
        self._policy = POLICIES[policy]
        self._states = [make_state(policy, board.experts) for _ in range(board.layers)]

    def slot(self, number: int) -> memoryview:
        """The bytes of a slot."""
        return self.arena.view[number * self.slot_bytes : (number + 1) * self.slot_bytes]

    def held(self, layer: int) -> Flags:
        """Which of a layer's experts are in memory, bool [experts]."""
        held: Flags = self.slot_of[layer] != EMPTY
        return held

    def settle(self, layer: int, experts: npt.NDArray[np.int64], choices: Choices, held: Flags) -> Flags:
        """Tell the policy of a forward that needs `experts` (distinct), some of which are in memory (`held`).

        Returns who is to be in memory when it is over, bool [experts].
        """
        stay = held.copy()
        if self.holds_all:
            stay[experts] = True
            return stay
        before = self.log.take(layer, choices.ids.shape[1])
        ids, kept = np.concatenate((before.ids, choices.ids)), np.concatenate((before.kept, choices.kept))
        state, pinned = self._states[layer], self.pinned[layer]
        near = self.recent.near(layer, len(kept))
        forwards(self._policy, state, ids, kept, near, len(before.kept), stay, pinned, self.cap)
        return stay

    def take_reserved(self, layer: int, expert: int) -> int:
        """Take the slot set aside for an expert, to read it there; EMPTY if there is none."""
        slot = self.reserved[layer].pop(expert, EMPTY)
        if slot != EMPTY:
            self._board.tier[layer, expert] = Tier.WORKING
        return slot

    def claim(self, layer: int, expert: int, spare: int = 0) -> int:
        """Take a free slot for an expert about to be read; EMPTY if no more than `spare` are free."""
        if len(self._free) <= spare:
            return EMPTY
        self._board.tier[layer, expert] = Tier.WORKING
        return self._free.pop()

    def place(self, layer: int, expert: int, slot: int) -> None:
        """The expert's bytes are in its slot: from now on it is a hit."""
        self.slot_of[layer, expert] = slot
        self._board.tier[layer, expert] = Tier.PIN if self.pinned[layer, expert] else Tier.CACHE

    def give_back(self, layer: int, expert: int, slot: int) -> None:
        """A claimed slot whose read failed, or was not needed."""
        self._free.append(slot)
        if self.slot_of[layer, expert] == EMPTY:
            self._board.tier[layer, expert] = Tier.DISK

    def evict(self, layer: int, expert: int) -> None:
        """Forget an expert in memory."""
        self._free.append(int(self.slot_of[layer, expert]))
        self.slot_of[layer, expert] = EMPTY
        self._board.tier[layer, expert] = Tier.DISK
        self._board.counters[Counter.EVICTIONS] += 1

    def pin(self, layer: int, expert: int) -> None:
        """Pin an expert: label it if it is in memory, else set a slot aside for it."""
        self.pinned[layer, expert] = True
        if self.slot_of[layer, expert] != EMPTY:
            self._board.tier[layer, expert] = Tier.PIN
        elif expert not in self.reserved[layer]:
            self.reserved[layer][expert] = self._free.pop()

    def expect(self, layer: int, experts: list[int]) -> list[int]:
        """Set slots of the cache aside for experts that are likely to be needed, likeliest first, as many as it has.

        Until they are used the policy lets them go first, the least likely before the others. Returns who got a slot.
        """
        taken = int(np.count_nonzero(self.held(layer) & ~self.pinned[layer]))
        fresh = [
            expert for expert in experts if self.slot_of[layer, expert] == EMPTY and not self.pinned[layer, expert]
        ]
        fresh = fresh[: max(0, self.cap - taken)]
        for place, expert in enumerate(fresh):
            self.reserved[layer][expert] = self._free.pop()
            self._states[layer].cells[ORDER, expert] = -place
        return fresh

    def unpin(self, layer: int, expert: int) -> None:
        """Make a pinned expert one of the cache, if it is in memory; the cache's last one leaves if it is full."""
        self.pinned[layer, expert] = False
        if self.slot_of[layer, expert] == EMPTY:
            return
        self._board.tier[layer, expert] = Tier.CACHE
        stay = self.held(layer)
        settle(self._policy, self._states[layer], stay, np.zeros_like(stay), self.pinned[layer], self.cap)
        for other in np.flatnonzero(self.held(layer) & ~stay).tolist():
            self.evict(layer, other)

    def drop(self) -> None:
        """Forget every cached expert; the pinned stay."""
        for layer, expert in np.argwhere((self.slot_of != EMPTY) & ~self.pinned).tolist():
            self.evict(layer, expert)
