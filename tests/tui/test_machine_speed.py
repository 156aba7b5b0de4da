"""Speeds of the machine are measured once and remembered for a month."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from colibri_tui import paths
from colibri_tui.machine_speed import SPEEDS, machine_speed
from engine.disk import DiskSpeed


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path))
    measured: list[int] = []

    def read_speed(files: list[Path], nbytes: int) -> DiskSpeed:
        measured.append(nbytes)
        return DiskSpeed(1e9 * len(measured), nbytes, True)

    monkeypatch.setattr("colibri_tui.machine_speed.read_speed", read_speed)
    monkeypatch.setattr("colibri_tui.machine_speed.memory_rate", lambda: 20e9)
    return measured


def speed(fresh: bool) -> float:
    return machine_speed([Path("x")], 1 << 20, lambda *_: None, fresh=fresh).disk


def test_a_speed_is_remembered(machine: list[int]) -> None:
    assert [speed(True), speed(False), speed(False), speed(True)] == [1e9, 1e9, 1e9, 2e9]


@pytest.mark.parametrize(
    "stored", ["", "[]", '{"at": NOW}', '{"memory": "x", "disk": 1, "direct": true, "at": NOW}', '{"at": 1e18}',
               '{"memory": 0, "disk": 1, "direct": true, "at": NOW}']
)  # fmt: skip
def test_what_is_remembered_badly_is_measured_anew(stored: str, machine: list[int]) -> None:
    paths.cache_dir().mkdir()
    (paths.cache_dir() / SPEEDS).write_text(stored.replace("NOW", str(time.time())))
    assert speed(False) == 1e9


def test_an_old_speed_is_measured_anew(machine: list[int]) -> None:
    speed(True)
    path = paths.cache_dir() / SPEEDS
    path.write_text(json.dumps({**json.loads(path.read_text()), "at": time.time() - 40 * 86400}))
    assert speed(False) == 2e9
