"""Reads that the system does by itself: every byte in its place, and an end to each of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.checkpoint import async_reads
from engine.checkpoint.async_reads import AsyncReads
from engine.checkpoint.files import ALIGN
from engine.kernels.memory import Block

PAGES, DEPTH = 64, 8


@pytest.fixture
def reads() -> Iterator[AsyncReads]:
    opened = AsyncReads.open(DEPTH)
    if opened is None:
        pytest.skip("this system has no asynchronous reads")
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    content = random.Random(0).randbytes(PAGES * ALIGN + 100)
    path = tmp_path / "file"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    yield fd, content
    os.close(fd)


def test_all_arrive_whatever_the_order(reads: AsyncReads, file: tuple[int, bytes]) -> None:
    fd, content = file
    memory, chance = Block(DEPTH * 4 * ALIGN), random.Random(1)
    begun: dict[int, tuple[int, int, int]] = {}  # number -> place in memory, offset, length
    free, seen = list(range(DEPTH)), 0
    while seen < 200:
        while free and chance.random() < 0.7:
            number, place = seen + len(begun), free.pop()
            while number in begun:
                number += 1
            offset, nbytes = chance.randrange(PAGES - 4) * ALIGN, chance.randint(1, 4) * ALIGN
            assert reads.begin(number, fd, offset, nbytes, memory.address + place * 4 * ALIGN)
            begun[number] = place, offset, nbytes
        assert reads.under_way == len(begun)
        for number, got in reads.ended(wait=chance.random() < 0.5):
            place, offset, nbytes = begun.pop(number)
            assert got == nbytes
            start = place * 4 * ALIGN
            assert bytes(memory.view[start : start + nbytes]) == content[offset : offset + nbytes]
            free.append(place)
            seen += 1


def test_no_more_than_there_is_room_for(reads: AsyncReads, file: tuple[int, bytes]) -> None:
    memory = Block(DEPTH * ALIGN)
    begun = [reads.begin(n, file[0], 0, ALIGN, memory.address + n % DEPTH * ALIGN) for n in range(DEPTH + 1)]
    assert begun == [True] * DEPTH + [False]
    ended = [read.number for _ in range(DEPTH) if reads.under_way for read in reads.ended(wait=True)]
    assert sorted(ended) == list(range(DEPTH))
    assert reads.ended(wait=True) == []
    assert reads.begin(7, file[0], 0, ALIGN, memory.address)


def test_what_cannot_be_read(reads: AsyncReads, file: tuple[int, bytes]) -> None:
    """The end of the file comes early; a file that is closed, or memory that is not ours."""
    fd, _ = file
    memory = Block(4 * ALIGN)
    assert reads.begin(1, fd, PAGES * ALIGN, ALIGN, memory.address)
    assert reads.ended(wait=True) == [(1, 100)]
    assert reads.begin(2, fd, (PAGES + 5) * ALIGN, ALIGN, memory.address)
    assert reads.ended(wait=True) == [(2, 0)]
    assert not reads.begin(3, 1 << 20, 0, ALIGN, memory.address)
    assert reads.under_way == 0
    if reads.begin(4, fd, 0, ALIGN, 1 << 60):
        (ended,) = reads.ended(wait=True)
        assert ended.got < 0


def test_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AsyncReads.open(1 << 30) is None  # more than any system allows
    monkeypatch.setattr(async_reads, "_NUMBERS", None)
    assert AsyncReads.open(DEPTH) is None
