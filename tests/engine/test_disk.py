"""Measuring a disk: with a model's files, or with a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.files import ALIGN
from engine.disk import middle_rate, read_speed, scratch_file
from engine.errors import ReadError


def test_reads_are_as_large_as_an_expert(tmp_path: Path) -> None:
    with scratch_file(tmp_path, 8 << 20) as file:
        assert file.stat().st_size == 8 << 20
        speed = read_speed([file], 1_000_000, seconds=0.05)
    assert speed.nbytes == 1_000_000 // ALIGN * ALIGN
    assert speed.rate > 0
    assert not list(tmp_path.iterdir())


def test_a_pause_of_the_disk_is_not_its_speed() -> None:
    steady = [(at / 100, (at + 1) / 100) for at in range(200)]
    assert middle_rate(steady) == pytest.approx(100)
    paused = [read for read in steady if read[0] < 0.5] + [(0.5, 1.2)] + [read for read in steady if read[0] >= 1.2]
    assert middle_rate(paused) == pytest.approx(100)


def test_reads_longer_than_a_slice_count_over_their_time() -> None:
    assert middle_rate([(0.0, 1.0), (1.0, 2.0), (0.0, 2.0)]) == pytest.approx(1.5)


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 100)
    with pytest.raises(ReadError, match="no file is large enough"):
        read_speed([tmp_path / "small"], 1 << 20)
    with pytest.raises(ReadError, match="cannot be read"):
        read_speed([tmp_path / "missing"], 1 << 20)
    with pytest.raises(ReadError, match="cannot be written"), scratch_file(tmp_path / "missing"):
        pass
