"""Which expert lies in which slot of the arena.

One arena, allocated once, cut into slots of one expert each. Every layer may keep `cap` experts (its cache, least
recently used first out); a few slots more are for experts on their way through. The labels move, the bytes never do:
an expert that was read into any free slot is cached by counting it, and leaves by being forgotten.
"""

from __future__ import annotations

import numpy as np

from ..board import Board, Counter, Tier
from ..kernels.memory import Block

EMPTY = -1


class Placement:
    """The arena and its slots.

    slot_of: int32 [layers, experts], the slot of an expert in memory or EMPTY. Recency is the board's `last_use`: the
    number of the forward that last chose the expert, so an expert the running forward needs is never a victim
    before it has been computed.
    """

    def __init__(self, board: Board, slots: int, slot_bytes: int, cap: int) -> None:
        self.cap, self.slots, self.slot_bytes = cap, slots, slot_bytes
        self.arena = Block(slots * slot_bytes)
        self.slot_of = np.full((board.layers, board.experts), EMPTY, np.int32)
        self._board = board
        self._free = list(range(slots - 1, -1, -1))
        self._held = [0] * board.layers

    def slot(self, number: int) -> memoryview:
        """The bytes of a slot."""
        return self.arena.view[number * self.slot_bytes : (number + 1) * self.slot_bytes]

    def claim(self, layer: int, expert: int, clock: int, computed: set[int]) -> int:
        """Take a slot for an expert about to be read; EMPTY when every slot this layer may use is needed.

        A free slot first; else the layer's least recently used expert that this forward (`clock`) does not need;
        else one that it has `computed` already.
        """
        if not self._free:
            victim = self._victim(layer, clock, computed)
            if victim == EMPTY:
                return EMPTY
            self._evict(layer, victim)
        slot = self._free.pop()
        self._held[layer] += 1
        self._board.tier[layer, expert] = Tier.WORKING
        return slot

    def place(self, layer: int, expert: int, slot: int) -> None:
        """The expert's bytes are in its slot: from now on it is a hit."""
        self.slot_of[layer, expert] = slot
        self._board.tier[layer, expert] = Tier.CACHE

    def give_back(self, layer: int, expert: int, slot: int) -> None:
        """A claimed slot whose read failed."""
        self._free.append(slot)
        self._held[layer] -= 1
        self._board.tier[layer, expert] = Tier.DISK

    def trim(self, layer: int) -> None:
        """After a layer's experts are computed: keep the `cap` most recently used."""
        while self._held[layer] > self.cap:
            self._evict(layer, self._oldest(layer, self.slot_of[layer] != EMPTY))

    def drop(self) -> None:
        """Forget every cached expert."""
        for layer, expert in np.argwhere(self.slot_of != EMPTY):
            self._evict(int(layer), int(expert))

    def _victim(self, layer: int, clock: int, computed: set[int]) -> int:
        held = self.slot_of[layer] != EMPTY
        idle = held & (self._board.last_use[layer] != clock)
        if idle.any():
            return self._oldest(layer, idle)
        return next((expert for expert in sorted(computed) if held[expert]), EMPTY)

    def _oldest(self, layer: int, among: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
        """The least recently used of some experts, the first slot on ties."""
        candidates = np.flatnonzero(among)
        order = np.lexsort((self.slot_of[layer, candidates], self._board.last_use[layer, candidates]))
        return int(candidates[order[0]])

    def _evict(self, layer: int, expert: int) -> None:
        self._free.append(int(self.slot_of[layer, expert]))
        self.slot_of[layer, expert] = EMPTY
        self._held[layer] -= 1
        self._board.tier[layer, expert] = Tier.DISK
        self._board.counters[Counter.EVICTIONS] += 1
