"""How experts get from files into slots: by threads, or by the system itself; the bytes are the same."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.checkpoint.async_reads import AsyncReads
from engine.checkpoint.files import ALIGN, ModelFiles
from engine.errors import EngineError
from engine.experts import async_reader
from engine.experts.async_reader import SMALL, AsyncReaders, open_readers
from engine.experts.reader import ReaderPool
from engine.experts.source import Bytes, ExpertFetch, ExpertRead
from engine.kernels.memory import Block

SLOT, NBYTES, EXPERTS = 6 * ALIGN, 3 * ALIGN + 77, 30


def turned(raw: Sequence[Bytes], slot: Bytes) -> None:
    slot[: len(raw[0])] = raw[0][::-1]


class Shelf:
    """A file of experts, what fetches them, and slots to put them in."""

    def __init__(self, folder: Path) -> None:
        self.content = random.Random(0).randbytes(EXPERTS * NBYTES)
        self.path = folder / "experts"
        self.path.write_bytes(self.content)
        self.slots = Block(EXPERTS * SLOT)
        self.files = ModelFiles(direct=True)
        self.files.open_all([self.path])
        self.source: Any = SimpleNamespace(expert_bytes=NBYTES, staging_bytes=SLOT)

    def fetch(self, expert: int) -> ExpertFetch:
        """In one read, in two, or with something to arrange."""
        offset, half = expert * NBYTES, NBYTES // 2
        whole = ExpertRead(self.path, offset, NBYTES, 0)
        if expert % 5 == 3:
            parts = (
                ExpertRead(self.path, offset, half, 0),
                ExpertRead(self.path, offset + half, NBYTES - half, 3 * ALIGN),
            )
            return ExpertFetch(parts)
        if expert % 5 == 4:
            return ExpertFetch((whole,), turned, ((whole.start, NBYTES),))
        return ExpertFetch((whole,))

    def slot(self, expert: int) -> memoryview:
        return self.slots.view[expert * SLOT : (expert + 1) * SLOT]

    def check(self, expert: int) -> None:
        """The slot holds the expert."""
        wanted, fetch, slot = self.content[expert * NBYTES :][:NBYTES], self.fetch(expert), self.slot(expert)
        if fetch.arrange is not None:
            assert bytes(slot[:NBYTES]) == wanted[::-1]
        else:
            assert b"".join(bytes(slot[read.start : read.start + read.nbytes]) for read in fetch.reads) == wanted


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.files.close()


@pytest.fixture(params=["threads", "system"])
def readers(shelf: Shelf, request: pytest.FixtureRequest) -> Iterator[ReaderPool]:
    pool: ReaderPool
    if request.param == "threads":
        pool = ReaderPool(shelf.files, shelf.source)
    else:
        system = AsyncReads.open(7)  # fewer than are asked for at once
        if system is None or not shelf.files.direct:
            pytest.skip("this system has no asynchronous reads")
        pool = AsyncReaders(shelf.files, shelf.source, system)
    yield pool
    pool.close()


def loaded(readers: ReaderPool, count: int) -> dict[int, EngineError | None]:
    """Wait for so many fetches."""
    ended = {}
    for turn in range(count):
        one = (readers.next_loaded(wait=False) if turn % 2 else None) or readers.next_loaded(wait=True)
        assert one is not None
        ended[one.ticket] = one.error
    assert readers.next_loaded(wait=False) is None
    return ended


def test_every_expert_comes_into_its_slot(shelf: Shelf, readers: ReaderPool) -> None:
    for _ in range(3):
        shelf.slots.view[:] = bytes(len(shelf.slots.view))
        for expert in range(EXPERTS):
            readers.fetch(expert, shelf.fetch(expert), shelf.slot(expert))
        readers.tell(99, None, guessed=True)
        assert loaded(readers, EXPERTS + 1) == dict.fromkeys([*range(EXPERTS), 99])
        for expert in range(EXPERTS):
            shelf.check(expert)


def test_what_cannot_be_read_says_why_and_the_others_come(shelf: Shelf, readers: ReaderPool) -> None:
    with shelf.path.open("r+b") as file:
        file.truncate(20 * NBYTES + 5)
    for expert in range(EXPERTS):
        readers.fetch(expert, shelf.fetch(expert), shelf.slot(expert))
    ended = loaded(readers, EXPERTS)
    assert [expert for expert, error in sorted(ended.items()) if error is None] == list(range(20))
    assert all("experts: ends at" in str(error) for error in ended.values() if error is not None)
    for expert in range(20):
        shelf.check(expert)


def test_the_end_of_a_file_needs_not_be_a_whole_page(shelf: Shelf, readers: ReaderPool) -> None:
    assert len(shelf.content) % ALIGN
    readers.fetch(0, shelf.fetch(EXPERTS - 5), shelf.slot(EXPERTS - 5))
    readers.fetch(1, ExpertFetch((ExpertRead(shelf.path, len(shelf.content) - 9, 9, 0),)), shelf.slot(0))
    assert loaded(readers, 2) == {0: None, 1: None}
    inset = (len(shelf.content) - 9) % ALIGN
    assert bytes(shelf.slot(0)[inset : inset + 9]) == shelf.content[-9:]


def test_guesses_that_still_wait_at_the_end_are_not_read(shelf: Shelf, readers: ReaderPool) -> None:
    held, done = Event(), list[int]()

    def begin(number: int) -> bool:
        held.wait(10)
        done.append(number)
        return False

    for number in range(20):
        readers.fetch_guess(shelf.fetch(0), shelf.slot(number), lambda number=number: begin(number), lambda error: None)
    readers.fetch(5, shelf.fetch(4), shelf.slot(4))  # by a thread, when one is free
    closing = readers._threads[0].__class__(target=readers.close)
    closing.start()
    held.set()
    closing.join(10)
    assert not closing.is_alive()
    assert len(done) <= 2 * len(readers._threads)
    shelf.check(4)


def test_who_reads(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(expert_bytes: int) -> type[ReaderPool]:
        shelf.source.expert_bytes = expert_bytes
        pool = open_readers(shelf.files, shelf.source)
        pool.close()
        return type(pool)

    assert kind(SMALL + 1) is ReaderPool
    if AsyncReads.open(1) is not None and shelf.files.direct:
        assert kind(SMALL) is AsyncReaders
    monkeypatch.setattr(async_reader.AsyncReads, "open", lambda depth: None)
    assert kind(SMALL) is ReaderPool


def test_a_file_that_refuses_direct_reads_is_read_all_the_same(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    system = AsyncReads.open(8)
    if system is None:
        pytest.skip("this system has no asynchronous reads")
    monkeypatch.setattr(system, "begin", lambda *_: False)
    readers = AsyncReaders(shelf.files, shelf.source, system)
    readers.fetch(0, shelf.fetch(0), shelf.slot(0))
    assert loaded(readers, 1) == {0: None}
    shelf.check(0)
    shelf.files[0]._direct_fd = -1
    readers.fetch(1, shelf.fetch(1), shelf.slot(1))
    assert loaded(readers, 1) == {1: None}
    shelf.check(1)
    readers.close()
    assert np.any(np.frombuffer(shelf.slot(1), np.uint8))
