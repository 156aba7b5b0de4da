"""Readers for small experts: what a forward needs is read by the system itself, see `checkpoint.async_reads`.

Handing an expert of a few pages to a reader thread takes longer than reading it. What has to be arranged, cannot be
read directly, or fails, goes the ordinary way, by a reader thread, and so does what no forward waits for.
"""

from __future__ import annotations

import ctypes
from collections import deque

from ..checkpoint.async_reads import AsyncReads
from ..checkpoint.files import ModelFiles, aligned_span
from .reader import Loaded, ReaderPool
from .source import ExpertFetch, ExpertSource

SMALL = 256 << 10
"""Bytes of an expert that is read in well under a millisecond."""

_DEPTH = 64
_COUNT = 4
"""Reads that begin before anything else is done."""


def is_small(source: ExpertSource) -> bool:
    """Whether an expert is read so quickly that nothing is won by foreseeing it, and much lost by handing it around."""
    return source.expert_bytes <= SMALL


def open_readers(files: ModelFiles, source: ExpertSource) -> ReaderPool:
    """The readers that suit a model and this system. The files are open."""
    system = AsyncReads.open(_DEPTH) if is_small(source) and files.direct else None
    return ReaderPool(files, source) if system is None else AsyncReaders(files, source, system)


class _Asked:
    """A fetch under way. needed: bytes of it."""

    __slots__ = ("fetch", "needed", "slot", "ticket")

    def __init__(self, ticket: int, fetch: ExpertFetch, slot: memoryview, needed: int) -> None:
        self.ticket, self.fetch, self.slot, self.needed = ticket, fetch, slot, needed


class AsyncReaders(ReaderPool):
    """A ReaderPool that hands `fetch` to the system."""

    def __init__(self, files: ModelFiles, source: ExpertSource, system: AsyncReads) -> None:
        super().__init__(files, source)
        self.count = _COUNT
        self._system = system
        self._asked: dict[int, _Asked] = {}  # by the numbers that the system knows
        self._number = 0
        self._loaded: deque[Loaded] = deque()

    def fetch(self, ticket: int, fetch: ExpertFetch, slot: memoryview) -> None:
        """Start filling `slot`; `next_loaded` will return the ticket."""
        if not self._begin(ticket, fetch, slot):
            super().fetch(ticket, fetch, slot)

    def next_loaded(self, wait: bool) -> Loaded | None:
        """The next finished fetch; None when there is none and `wait` is false."""
        self._collect(wait=False)
        while not self._loaded:
            told = super().next_loaded(wait and not self._asked)
            if told is not None or not wait:
                return told
            self._collect(wait=True)
        return self._loaded.popleft()

    def close(self) -> None:
        """End the threads; what was asked for is read first."""
        super().close()
        self._system.close()

    def _begin(self, ticket: int, fetch: ExpertFetch, slot: memoryview) -> bool:
        if fetch.arrange is not None or len(fetch.reads) > 1:
            return False
        read = fetch.reads[0]
        fd = self._files[self._files.number(read.file)].direct_fd
        if fd < 0:
            return False
        start, length = aligned_span(read.offset, read.nbytes)
        address = ctypes.addressof(ctypes.c_char.from_buffer(slot, read.region))
        self._number += 1
        if not self._system.begin(self._number, fd, start, length, address):
            return False
        self._asked[self._number] = _Asked(ticket, fetch, slot, read.offset - start + read.nbytes)
        return True

    def _collect(self, *, wait: bool) -> None:
        """Note what has ended; what did not end well is read again, by a thread, which can tell why it fails."""
        for number, got in self._system.ended(wait):
            asked = self._asked.pop(number)
            if got >= asked.needed:
                self._loaded.append(Loaded(asked.ticket, None))
            else:
                super().fetch(asked.ticket, asked.fetch, asked.slot)
