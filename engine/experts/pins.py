"""Pinned experts: which ones, how many, and their loading in the background.

The history ranks all experts of all layers by how often they were chosen. The hottest are pinned: they are in memory
from the start, and the cache's policy has no say in them. Pins and cache share one budget, so pins are worth it only if
the history can be trusted: `pin_slots` holds back until there is enough of it, and leaves the cache a reserve.

Pins are loaded one at a time through the readers that serve the running forward: a forward's reads wait for one
expert at most, and the model answers meanwhile. What a forward needs first, it loads itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from functools import partial
from threading import Event, Lock

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from .placement import EMPTY, Placement
from .reader import ReaderPool
from .source import ExpertSource

SELECTIONS_MIN = 5_000
"""`--pin auto` begins with that much history, ..."""

SELECTIONS_FULL = 200_000
"""... trusts it fully from here on, ..."""

AUTO_SHARE = 0.5
"""... and then takes this share of the slots."""

Expert = tuple[int, int]
"""(layer, expert)."""


def rank(counts: npt.NDArray[np.uint32], routed: tuple[int, ...]) -> list[Expert]:
    """All experts that were chosen at all, the most often chosen first, lower layers and numbers first on ties.

    counts: [layers, experts]. routed: the layers that have experts.
    """
    layers, experts = np.nonzero(counts)
    keep = np.isin(layers, routed)
    layers, experts = layers[keep], experts[keep]
    order = np.lexsort((experts, layers, -counts[layers, experts].astype(np.int64)))
    return [(int(layers[at]), int(experts[at])) for at in order]


def pin_slots(available: int, reserve: int, layers: int, selections: int | None, wanted: float | None) -> int:
    """How many of the `available` slots to give to pins, `reserve` of them being the cache's.

    selections: how many choices the history holds, or None if a person named it and it is trusted as it is. wanted: how
    many slots a person asked for (inf: all), None: by the rule. Fewer pins than one a layer (`layers`) are none at all.
    """
    if selections is not None and selections < SELECTIONS_MIN:
        return 0
    confidence = 1.0 if selections is None else min(1.0, selections / SELECTIONS_FULL)
    share = AUTO_SHARE * available * confidence if wanted is None else wanted
    pins = math.floor(min(share, available - reserve))
    return pins if pins >= layers else 0


class Pins:
    """The pinned experts of a placement.

    failed: why loading ended early, one line; None while it goes well. One thread, the engine's, calls the methods.
    """

    def __init__(self, placement: Placement, readers: ReaderPool, source: ExpertSource) -> None:
        self.failed: str | None = None
        self._placement, self._readers, self._source = placement, readers, source
        self._lock = Lock()  # of the next two
        self._queue: deque[Expert] = deque()
        self._reading: Expert | None = None
        self._event = Event()  # a read of ours has ended

    def set_to(self, experts: Iterable[Expert]) -> None:
        """Pin these and no others; those that are not in memory are loaded in this order. Returns at once."""
        wanted = dict.fromkeys(experts)
        pinned = self._placement.pinned
        for expert in map(tuple, np.argwhere(pinned).tolist()):
            if expert not in wanted:
                self._unpin(*expert)
        fresh = [expert for expert in wanted if not pinned[expert]]
        for expert in fresh:
            self._placement.pin(*expert)
        with self._lock:
            self._queue.extend(fresh)
            if self._reading is None:
                self._next()

    def swap(self, layer: int, out: int, expert: int) -> None:
        """Pin an expert in another one's place. Raises ReadError when it cannot be read; it is pinned even so."""
        self._unpin(layer, out)
        self._placement.pin(layer, expert)
        slot = self._placement.take_reserved(layer, expert)
        if slot == EMPTY:
            return  # it was in memory
        self._readers.fetch(0, self._source.reads[layer, expert], self._placement.slot(slot))
        loaded = self._readers.next_loaded(wait=True)
        assert loaded is not None
        if loaded.error is not None:
            self._placement.give_back(layer, expert, slot)
            raise loaded.error
        self._placement.place(layer, expert, slot)

    def landed(self, layer: int, expert: int) -> bool:
        """Whether an expert that was missing is in memory after all; waits if it is being read now."""
        while self._reading == (layer, expert):
            self._wait((layer, expert))
        return bool(self._placement.slot_of[layer, expert] != EMPTY)

    def finish(self) -> None:
        """Wait until all are loaded."""
        while (reading := self._reading) is not None:
            self._wait(reading)

    def stop(self) -> None:
        """Load no more; a read under way ends before this returns."""
        with self._lock:
            self._queue.clear()
        self.finish()

    def _unpin(self, layer: int, expert: int) -> None:
        slot = self._placement.take_reserved(layer, expert)
        if slot != EMPTY:
            self._placement.give_back(layer, expert, slot)
        else:
            self.landed(layer, expert)
        self._placement.unpin(layer, expert)

    def _wait(self, reading: Expert) -> None:
        self._event.clear()
        if self._reading == reading:
            self._event.wait()

    def _next(self) -> None:
        """Begin the next read, under the lock: the first by whoever pins, the others by the reader threads."""
        while self._queue:
            expert = self._reading = self._queue.popleft()
            # A forward that needs it takes the slot away and reads it itself; only one of us can.
            slot = self._placement.reserved.pop(expert, EMPTY)
            if slot != EMPTY:
                done = partial(self._ended, expert, slot)
                self._readers.fetch_aside(self._source.reads[expert], self._placement.slot(slot), done)
                return
        self._reading = None

    def _ended(self, expert: Expert, slot: int, error: EngineError | None) -> None:
        if error is None:
            self._placement.place(*expert, slot)
        else:
            self._placement.give_back(*expert, slot)
        with self._lock:
            if error is not None:
                self._queue.clear()
                self.failed = f"{error}; no more experts are pinned"
            self._next()
        self._event.set()
