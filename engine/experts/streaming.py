"""Gets a layer's experts to the kernels: hits are computed while the misses are read.

The distinct experts of a forward (one token, or a block of the prompt) are its *jobs*. Those in memory are computed at
once; the others are claimed a slot each and read, and computed as they arrive. When there are more than slots, computed
ones make room. Since every pair's output is kept apart (see kernels.ops_experts), the order changes nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, Tier
from .placement import EMPTY, Placement
from .reader import ReaderPool
from .source import ExpertSource

Jobs = npt.NDArray[np.int64]


class Streamer:
    """Streams experts through a placement."""

    def __init__(self, source: ExpertSource, placement: Placement, readers: ReaderPool, board: Board) -> None:
        self._source, self._placement, self._readers, self._board = source, placement, readers, board

    def run(
        self, layer: int, experts: Jobs, clock: int, hit_counter: Counter, compute: Callable[[list[int]], None]
    ) -> None:
        """Bring every expert of `experts` (distinct ids) into memory and `compute` it once, by its job number.

        Counts hits from `hit_counter` on (pin, cache, disk). Raises ReadError when a read fails; all other reads have
        ended then, and the placement is sound.
        """
        placement = self._placement
        resident = placement.slot_of[layer, experts] != EMPTY
        ready = np.flatnonzero(resident).tolist()
        missing = deque(np.flatnonzero(~resident).tolist())
        self._count(layer, experts[resident], len(missing), hit_counter)
        claimed: dict[int, int] = {}
        computed: set[int] = set()
        try:
            while ready or missing or claimed:
                while missing:
                    expert = int(experts[missing[0]])
                    slot = placement.claim(layer, expert, clock, computed)
                    if slot == EMPTY:
                        break
                    job = missing.popleft()
                    claimed[job] = slot
                    self._readers.fetch(job, self._source.reads[layer, expert], placement.slot(slot))
                if ready:
                    compute(ready)
                    computed.update(int(experts[job]) for job in ready)
                ready = self._arrived(layer, experts, claimed, wait=not ready)
        finally:
            self._abandon(layer, experts, claimed)
        placement.trim(layer)

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
            arrived.append(loaded.ticket)
        return arrived

    def _abandon(self, layer: int, experts: Jobs, claimed: dict[int, int]) -> None:
        """Wait for reads nobody will use any more: their slots must not be written to after they are given back."""
        while claimed:
            loaded = self._readers.next_loaded(wait=True)
            assert loaded is not None
            self._placement.give_back(layer, int(experts[loaded.ticket]), claimed.pop(loaded.ticket))

    def _count(self, layer: int, hits: Jobs, misses: int, hit_counter: Counter) -> None:
        pinned = int(np.count_nonzero(self._board.tier[layer, hits] == Tier.PIN))
        counters = self._board.counters
        counters[hit_counter] += pinned
        counters[hit_counter + 1] += len(hits) - pinned
        counters[hit_counter + 2] += misses
