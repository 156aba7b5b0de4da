"""Reader threads: they fetch experts from disk into slots while the kernels compute.

Two to four threads saturate a disk with reads of a megabyte and more. A read releases the interpreter lock, so it costs
the computing threads nothing but memory bandwidth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from queue import Empty, PriorityQueue, SimpleQueue
from threading import Thread
from typing import NamedTuple

import numpy as np

from ..checkpoint.files import ModelFiles, aligned_span
from ..errors import EngineError
from ..kernels.memory import Block
from .source import ExpertFetch, ExpertRead, ExpertSource

READERS = 2


class Loaded(NamedTuple):
    """A finished fetch; `error` is set when it failed and the slot holds nothing usable. guessed: begun on a guess."""

    ticket: int
    error: EngineError | None
    guessed: bool = False


class _Job(NamedTuple):
    fetch: ExpertFetch
    slot: memoryview
    done: Callable[[EngineError | None], None]
    begin: Callable[[], bool] | None = None  # whether it is still wanted


_NEEDED, _END, _GUESSED = range(3)
"""What is done first; guesses that still wait at the end are not read."""


def fill_slot(files: ModelFiles, fetch: ExpertFetch, slot: memoryview, staging: memoryview) -> None:
    """Read an expert into a slot, by way of `staging` where it has to be arranged. Raises ReadError."""
    if fetch.arrange is None:
        _read(files, fetch.reads, slot)
        return
    _read(files, fetch.reads, staging)
    raw = [np.frombuffer(staging, np.uint8, nbytes, start) for start, nbytes in fetch.ranges]
    fetch.arrange(raw, np.frombuffer(slot, np.uint8))


def _read(files: ModelFiles, reads: tuple[ExpertRead, ...], target: memoryview) -> None:
    for read in reads:
        _, length = aligned_span(read.offset, read.nbytes)
        file = files[files.number(read.file)]
        file.read_span(read.offset, read.nbytes, target[read.region : read.region + length])


class ReaderPool:
    """Fetches experts in the order asked, guesses last. Used by one thread, `fetch_aside` and `tell` by any."""

    def __init__(self, files: ModelFiles, source: ExpertSource, readers: int = READERS) -> None:
        self._files, self._source, self.count = files, source, readers
        self._jobs: PriorityQueue[tuple[int, int, _Job | None]] = PriorityQueue()
        self._numbers = itertools.count()  # of jobs, so that equal ones keep their order
        self._done: SimpleQueue[Loaded] = SimpleQueue()
        self._threads = [Thread(target=self._serve, name=f"reader-{number}", daemon=True) for number in range(readers)]
        for thread in self._threads:
            thread.start()

    def fetch(self, ticket: int, fetch: ExpertFetch, slot: memoryview) -> None:
        """Start filling `slot`; `next_loaded` will return the ticket."""
        self._put(_NEEDED, _Job(fetch, slot, lambda error: self.tell(ticket, error)))

    def fetch_aside(self, fetch: ExpertFetch, slot: memoryview, done: Callable[[EngineError | None], None]) -> None:
        """Fill `slot` and call `done`, on a reader thread. From any thread; `next_loaded` does not tell of it."""
        self._put(_NEEDED, _Job(fetch, slot, done))

    def fetch_guess(
        self,
        fetch: ExpertFetch,
        slot: memoryview,
        begin: Callable[[], bool],
        done: Callable[[EngineError | None], None],
    ) -> None:
        """Fill `slot` when nothing else waits, unless `begin` then says no; `done` is called if it said yes.

        Both are called on a reader thread.
        """
        self._put(_GUESSED, _Job(fetch, slot, done, begin))

    def tell(self, ticket: int, error: EngineError | None, guessed: bool = False) -> None:
        """Have `next_loaded` return a ticket. From any thread."""
        self._done.put(Loaded(ticket, error, guessed))

    def next_loaded(self, wait: bool) -> Loaded | None:
        """The next finished fetch; None when there is none and `wait` is false."""
        try:
            return self._done.get(wait)
        except Empty:
            return None

    def _put(self, rank: int, job: _Job | None) -> None:
        self._jobs.put((rank, next(self._numbers), job))

    def _serve(self) -> None:
        staging = Block(self._source.staging_bytes).view
        while (job := self._jobs.get()[2]) is not None:
            if job.begin is not None and not job.begin():
                continue
            error = None
            try:
                fill_slot(self._files, job.fetch, job.slot, staging)
            except EngineError as failure:
                error = failure
            job.done(error)

    def close(self) -> None:
        """End the threads; what was asked for is read first, but for guesses that have not begun."""
        for _ in self._threads:
            self._put(_END, None)
        for thread in self._threads:
            thread.join()
