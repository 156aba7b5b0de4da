"""Reader threads: they fetch experts from disk into slots while the kernels compute.

Two to four threads saturate a disk with reads of a megabyte and more. A read releases the interpreter lock, so it costs
the computing threads nothing but memory bandwidth.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from ..checkpoint.files import ModelFiles, aligned_span
from ..errors import EngineError
from .source import ExpertRead

READERS = 2


class Loaded(NamedTuple):
    """A finished fetch; `error` is set when it failed and the slot holds nothing usable."""

    ticket: int
    error: EngineError | None


class ReaderPool:
    """Fetches experts in the order asked. Used by one thread at a time."""

    def __init__(self, files: ModelFiles, readers: int = READERS) -> None:
        self._files, self.count = files, readers
        self._jobs: SimpleQueue[tuple[int, tuple[ExpertRead, ...], memoryview] | None] = SimpleQueue()
        self._done: SimpleQueue[Loaded] = SimpleQueue()
        self._threads = [Thread(target=self._serve, name=f"reader-{number}", daemon=True) for number in range(readers)]
        for thread in self._threads:
            thread.start()

    def fetch(self, ticket: int, reads: tuple[ExpertRead, ...], slot: memoryview) -> None:
        """Start filling `slot`; `next_loaded` will return the ticket."""
        self._jobs.put((ticket, reads, slot))

    def next_loaded(self, wait: bool) -> Loaded | None:
        """The next finished fetch; None when there is none and `wait` is false."""
        try:
            return self._done.get(wait)
        except Empty:
            return None

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            ticket, reads, slot = job
            error = None
            try:
                for read in reads:
                    _, length = aligned_span(read.offset, read.nbytes)
                    file = self._files[self._files.number(read.file)]
                    file.read_span(read.offset, read.nbytes, slot[read.region : read.region + length])
            except EngineError as failure:
                error = failure
            self._done.put(Loaded(ticket, error))

    def close(self) -> None:
        """End the threads; fetches under way are finished first."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
