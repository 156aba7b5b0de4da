"""Experts that are loaded before they are needed: the pinned ones, and what fills the cache at the start.

They are loaded in the background, one at a time, through the readers that serve the running forward: a forward's reads
wait for one expert at most, and the model answers meanwhile. What a forward needs first, it reads itself, and room
that a forward needs is no longer set aside.

Filling an empty cache with what the history ranks highest costs nothing that is missed later: those that are not
used are the first to leave. Where all experts fit, all are loaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from threading import Event, Lock

import numpy as np

from ..board import Board, Counter
from ..errors import EngineError
from .pins import Expert
from .placement import EMPTY, Flags, Placement
from .reader import ReaderPool
from .source import ExpertSource


class Ahead:
    """Loads experts ahead. One thread, the engine's, calls the methods.

    failed: why loading ended early, one line; None while it goes well.
    """

    def __init__(self, placement: Placement, readers: ReaderPool, source: ExpertSource, board: Board) -> None:
        self.failed: str | None = None
        self._placement, self._readers, self._source = placement, readers, source
        self._lock = Lock()  # of the next two, and of what the placement has set aside
        self._queue: deque[Expert] = deque()
        self._reading: Expert | None = None
        self._event = Event()  # a read of ours has ended
        self._board = board

    def pin(self, experts: Iterable[Expert]) -> None:
        """Pin these and no others; those that are not in memory are loaded in this order. Returns at once."""
        wanted = dict.fromkeys(experts)
        pinned = self._placement.pinned
        for layer, expert in np.argwhere(pinned).tolist():
            if (layer, expert) not in wanted:
                self._unpin(layer, expert)
        fresh = [where for where in wanted if not pinned[where]]
        for layer, expert in fresh:
            self._pin(layer, expert)
        self._load(fresh)

    def fill(self, ranking: Iterable[Expert]) -> None:
        """Load what is ranked highest into slots of the cache that are empty. Returns at once."""
        by_layer: dict[int, list[int]] = {}
        order = {where: place for place, where in enumerate(ranking)}
        for layer, expert in order:
            by_layer.setdefault(layer, []).append(expert)
        expected = [
            (layer, expert) for layer, experts in by_layer.items() for expert in self._placement.expect(layer, experts)
        ]
        self._load(sorted(expected, key=order.__getitem__))

    def swap(self, layer: int, out: int, expert: int) -> None:
        """Pin an expert in another one's place. Raises ReadError when it cannot be read; it is pinned even so."""
        self._unpin(layer, out)
        self._pin(layer, expert)
        slot = self.take(layer, expert)
        if slot == EMPTY:
            return  # it was in memory
        self._readers.fetch(0, self._source.reads[layer, expert], self._placement.slot(slot))
        loaded = self._readers.next_loaded(wait=True)
        assert loaded is not None
        if loaded.error is not None:
            self._placement.give_back(layer, expert, slot)
            raise loaded.error
        self._placement.place(layer, expert, slot)

    def take(self, layer: int, expert: int) -> int:
        """Take the slot that is set aside for an expert, to read it at once; EMPTY if there is none."""
        with self._lock:
            return self._placement.take_reserved(layer, expert)

    def landed(self, layer: int, expert: int) -> bool:
        """Whether an expert that was missing is in memory after all; waits if it is being read now."""
        while self._reading == (layer, expert):
            self._wait((layer, expert))
        return bool(self._placement.slot_of[layer, expert] != EMPTY)

    def make_room(self, layer: int, held: Flags, needed: Flags, stay: Flags) -> None:
        """Set no more slots of a layer's cache aside than a forward leaves.

        held: what was in memory when the forward was settled. needed: what it needs. stay: what is to be in memory
        when it is over. All bool [experts].
        """
        placement = self._placement
        with self._lock:
            if self._reading is None and not placement.reserved[layer] and (placement.held(layer) <= held).all():
                return
            idle = ~needed & ~placement.pinned[layer]
            landed = np.flatnonzero(placement.held(layer) & ~held & idle).tolist()
            coming = [expert for expert in placement.reserved[layer] if idle[expert]]
            reading = self._reading
            under_way = reading is not None and reading[0] == layer and bool(idle[reading[1]])
            surplus = int(np.count_nonzero(stay & ~placement.pinned[layer])) - placement.cap
            surplus += len(landed) + len(coming) + under_way
            while coming and surplus > 0:
                expert = coming.pop()
                placement.give_back(layer, expert, placement.take_reserved(layer, expert))
                surplus -= 1
        for expert in landed[: max(0, surplus)]:
            placement.evict(layer, expert)
        if under_way and reading is not None and surplus > len(landed) and self.landed(*reading):
            placement.evict(*reading)

    def finish(self) -> None:
        """Wait until all are loaded."""
        while (reading := self._reading) is not None:
            self._wait(reading)

    def stop(self) -> None:
        """Load no more; a read under way ends before this returns. What is set aside for unpinned experts is free."""
        with self._lock:
            self._queue.clear()
            self._board.counters[Counter.WARM_DONE] = self._board.counters[Counter.WARM_TOTAL]
            for layer, reserved in enumerate(self._placement.reserved):
                for expert in [expert for expert in reserved if not self._placement.pinned[layer, expert]]:
                    self._placement.give_back(layer, expert, self._placement.take_reserved(layer, expert))
        self.finish()

    def _load(self, experts: list[Expert]) -> None:
        with self._lock:
            if not self._queue and self._reading is None:
                self._board.counters[Counter.WARM_DONE] = self._board.counters[Counter.WARM_TOTAL] = 0
            self._queue.extend(experts)
            self._board.counters[Counter.WARM_TOTAL] += len(experts)
            if self._reading is None:
                self._next()

    def _pin(self, layer: int, expert: int) -> None:
        while True:
            with self._lock:
                if self._reading != (layer, expert):
                    self._placement.pin(layer, expert)
                    return
            self.landed(layer, expert)

    def _unpin(self, layer: int, expert: int) -> None:
        slot = self.take(layer, expert)
        if slot != EMPTY:
            self._placement.give_back(layer, expert, slot)
        else:
            self.landed(layer, expert)
        nothing = np.zeros_like(self._placement.pinned[layer])
        self._placement.unpin(layer, expert)
        held = self._placement.held(layer)
        self.make_room(layer, held, nothing, held)

    def _wait(self, reading: Expert) -> None:
        self._event.clear()
        if self._reading == reading:
            self._event.wait()

    def _next(self) -> None:
        """Begin the next read, under the lock: the first by the engine's thread, the others by the readers'."""
        while self._queue:
            self._board.counters[Counter.WARM_DONE] = self._board.counters[Counter.WARM_TOTAL] - len(self._queue)
            layer, expert = self._queue.popleft()
            slot = self._placement.take_reserved(layer, expert)
            if slot != EMPTY:  # else a forward has read it, or needed the room
                self._reading = layer, expert
                done = partial(self._ended, layer, expert, slot)
                self._readers.fetch_aside(self._source.reads[layer, expert], self._placement.slot(slot), done)
                return
        self._board.counters[Counter.WARM_DONE] = self._board.counters[Counter.WARM_TOTAL]
        self._reading = None

    def _ended(self, layer: int, expert: int, slot: int, error: EngineError | None) -> None:
        with self._lock:
            if error is None:
                self._placement.place(layer, expert, slot)
            else:
                self._placement.give_back(layer, expert, slot)
                self._queue.clear()
                self.failed = f"{error}; no more experts are loaded ahead"
            self._next()
        self._event.set()
