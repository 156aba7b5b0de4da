"""Gets a layer's experts to the kernels: hits are computed while the misses are read.

The distinct experts of a forward (one token, or a block of the prompt) are its *jobs*. Those in memory are computed at
once; the others are claimed a slot each and read, and computed as they arrive. Who stays in memory afterwards has been
decided before (see `policies`); the others make room as soon as they are computed. Since every pair's output is kept
apart (see kernels.ops_experts), the order changes nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, LayerCell
from .ahead import Ahead
from .pilot import Pilot
from .placement import EMPTY, Choices, Placement
from .reader import ReaderPool
from .source import ExpertSource

Jobs = npt.NDArray[np.int64]


class Coming(NamedTuple):
    """What a layer that comes is expected to choose, likeliest first; `spare` slots are left to what is needed."""

    layer: int
    experts: list[int]
    spare: int


class Streamer:
    """Streams experts through a placement."""

    def __init__(
        self, source: ExpertSource, placement: Placement, readers: ReaderPool, board: Board, ahead: Ahead, pilot: Pilot
    ) -> None:
        self._source, self._placement, self._readers, self._board = source, placement, readers, board
        self._ahead, self._pilot = ahead, pilot

    def run(
        self,
        layer: int,
        experts: Jobs,
        choices: Choices,
        hit_counter: Counter,
        compute: Callable[[list[int]], None],
        coming: Coming | None = None,
    ) -> None:
        """Bring every expert of `experts` (distinct ids) into memory and `compute` it once, by its job number.

        choices: what the forward's tokens chose, for the policy. coming: what the next layer is expected to choose, to
        be read as soon as nothing of this layer's waits for a slot. Counts hits from `hit_counter` on (pin, cache,
        disk). Raises ReadError when a read fails; all other reads have ended then, and the placement is sound.
        """
        placement = self._placement
        self._pilot.begin(layer)
        held = placement.held(layer)
        resident = held[experts]
        ready = np.flatnonzero(resident).tolist()
        missing = deque(np.flatnonzero(~resident).tolist())
        claimed: dict[int, int] = {}
        misses, leaving = len(missing), np.zeros_like(held)
        try:
            # The readers begin before anything is decided: the disk is what a token waits for.
            while (
                missing
                and len(claimed) < self._readers.count
                and self._begin(layer, experts, missing[0], claimed, ready)
            ):
                missing.popleft()
            if coming is not None and not missing:  # what finds no slot yet is tried again, wave by wave
                self._pilot.guess(*coming)
            stay = placement.settle(layer, experts, choices, held)
            needed = np.zeros_like(held)
            needed[experts] = True
            leaving = needed & ~stay
            self._count(layer, experts[resident], misses, hit_counter)
            self._evict(layer, np.flatnonzero(held & ~stay & ~needed).tolist())
            self._ahead.make_room(layer, held, needed, stay)
            # Those that do not stay come first: they need room only until they are computed.
            missing = deque(sorted(missing, key=lambda job: bool(stay[experts[job]])))
            while ready or missing or claimed:
                while missing and self._begin(layer, experts, missing[0], claimed, ready):
                    missing.popleft()
                if coming is not None and not missing:
                    self._pilot.guess(*coming)
                if missing and not ready and not claimed:  # guesses that came to nothing hold the slots
                    self._pilot.stop()
                    continue
                if ready:
                    compute(ready)
                    self._evict(layer, [int(expert) for expert in experts[ready] if leaving[expert]])
                ready = self._arrived(layer, experts, claimed, wait=not ready)
        finally:
            self._abandon(layer, experts, claimed)
            self._evict(layer, np.flatnonzero(leaving & placement.held(layer)).tolist())

    def _begin(self, layer: int, experts: Jobs, job: int, claimed: dict[int, int], ready: list[int]) -> bool:
        """Get a job's expert on its way (claimed), or note that it has come in (ready); False if no slot is free."""
        expert = int(experts[job])
        slot = self._ahead.take(layer, expert)
        if slot == EMPTY and self._ahead.landed(layer, expert):
            ready.append(job)
            return True
        if slot == EMPTY:
            slot, read = self._pilot.take(layer, expert, job)
            if slot != EMPTY:
                claimed[job] = slot
                if read:
                    self._readers.tell(job, None, guessed=True)
                return True
            slot = self._placement.claim(layer, expert)
        if slot == EMPTY:
            return False
        claimed[job] = slot
        self._readers.fetch(job, self._source.reads[layer, expert], self._placement.slot(slot))
        return True

    def _evict(self, layer: int, experts: list[int]) -> None:
        for expert in experts:
            self._placement.evict(layer, expert)

    def _arrived(self, layer: int, experts: Jobs, claimed: dict[int, int], wait: bool) -> list[int]:
        """Jobs whose experts have come in; with `wait`, at least one if any is on its way."""
        arrived: list[int] = []
        while claimed:
            block = wait and not arrived
            before = time.perf_counter_ns() if block else 0
            loaded = self._readers.next_loaded(block)
            if block:
                self._board.counters[Counter.READ_WAIT_NS] += time.perf_counter_ns() - before
            if loaded is None:
                break
            slot = claimed.pop(loaded.ticket)
            expert = int(experts[loaded.ticket])
            if loaded.error is not None:
                self._placement.give_back(layer, expert, slot)
                raise loaded.error
            self._board.counters[Counter.BYTES_READ] += self._source.expert_bytes
            self._placement.place(layer, expert, slot)
            if loaded.guessed:
                self._pilot.proved()
            arrived.append(loaded.ticket)
        return arrived

    def _abandon(self, layer: int, experts: Jobs, claimed: dict[int, int]) -> None:
        """Wait for reads nobody will use any more: their slots must not be written to after they are given back."""
        while claimed:
            loaded = self._readers.next_loaded(wait=True)
            assert loaded is not None
            self._placement.give_back(layer, int(experts[loaded.ticket]), claimed.pop(loaded.ticket))

    def _count(self, layer: int, hits: Jobs, misses: int, hit_counter: Counter) -> None:
        pinned = np.count_nonzero(self._placement.pinned[layer, hits])
        found = np.array((pinned, len(hits) - pinned, misses))
        self._board.counters[hit_counter : hit_counter + 3] += found
        cell = LayerCell.PIN if hit_counter == Counter.HITS_PIN else LayerCell.PREFILL_PIN
        self._board.by_layer[layer, cell : cell + 3] += found
