"""Positional reads: the right bytes at any offset, past the page cache or through it, and failures in one line."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.checkpoint.files import ALIGN, ModelFile, ModelFiles, aligned_span
from engine.errors import ReadError

SIZE = 5 * ALIGN + 1234
CONTENT = bytes((n * 7 + n // 251) % 256 for n in range(SIZE))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "model.safetensors"
    file.write_bytes(CONTENT)
    return file


@pytest.fixture(params=[True, False], ids=["direct", "buffered"], scope="module")
def file(request: pytest.FixtureRequest, path: Path) -> Iterator[ModelFile]:
    opened = ModelFile(path, request.param)
    yield opened
    opened.close()


def page_aligned(length: int) -> memoryview:
    """Memory such as a slot of the arena is."""
    return memoryview(mmap.mmap(-1, max(length, 1)))[:length]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, SIZE - 1), st.integers(1, SIZE))
@example(0, SIZE)
@example(SIZE - 1, 1)
@example(ALIGN, ALIGN)
@example(ALIGN - 1, 2)
def test_any_range(file: ModelFile, offset: int, nbytes: int) -> None:
    nbytes = min(nbytes, SIZE - offset)
    start, length = aligned_span(offset, nbytes)
    assert start % ALIGN == length % ALIGN == 0
    assert start <= offset < offset + nbytes <= start + length < offset + nbytes + 2 * ALIGN
    span = page_aligned(length)
    file.read_span(offset, nbytes, span)
    assert bytes(span[offset - start : offset - start + nbytes]) == CONTENT[offset : offset + nbytes]
    target = bytearray(nbytes)
    file.read_into(offset, memoryview(target))
    assert bytes(target) == CONTENT[offset : offset + nbytes]


def test_a_range_past_the_end(file: ModelFile) -> None:
    said = r"model\.safetensors: ends at .* 10 bytes short; was it changed\?$"
    with pytest.raises(ReadError, match=said):
        file.read_span(SIZE - 10, 20, page_aligned(ALIGN))
    with pytest.raises(ReadError, match=said):
        file.read_into(SIZE - 10, memoryview(bytearray(20)))


def test_a_file_system_that_takes_the_flag_and_refuses_the_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on the file is read buffered."""
    real = os.preadv
    opened = ModelFile(path, direct=True)
    if not opened.direct:
        opened.close()
        pytest.skip("no direct reads here")
    direct = opened._direct_fd

    def refusing(fd: int, buffers: list[memoryview], offset: int) -> int:
        if fd == direct:
            raise OSError(22, "Invalid argument")
        return real(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", refusing)
    span = page_aligned(ALIGN)
    opened.read_span(100, 50, span)
    assert bytes(span[100:150]) == CONTENT[100:150]
    assert not opened.direct
    opened.close()


@pytest.mark.parametrize("direct", [True, False])
def test_a_failing_disk(path: Path, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> int:
        raise OSError(5, "Input/output error")

    opened = ModelFile(path, direct)
    monkeypatch.setattr(os, "preadv", failing)
    with pytest.raises(ReadError, match=r"reading failed \(Input/output error\); is the disk still there\?"):
        opened.read_span(0, 10, page_aligned(ALIGN))
    opened.close()


def test_files_are_opened_once_and_when_wanted(path: Path, tmp_path: Path) -> None:
    files = ModelFiles(direct=False)
    assert files.number(path) == files.number(path) == 0
    assert not files.direct
    with pytest.raises(ReadError, match=r"gone.safetensors: cannot be opened \(No such file"):
        files.number(tmp_path / "gone.safetensors")
    target = bytearray(5)
    files[0].read_into(3, memoryview(target))
    assert bytes(target) == CONTENT[3:8]
    files.close()
