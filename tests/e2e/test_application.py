"""The application in a real terminal, with a fake engine in its own process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.terminal import Terminal
from tests.fake_engine import FACTORY, write_model

PROGRAM = f"import sys; from colibri_tui.cli import main; sys.exit(main(factory={FACTORY!r}))"


@pytest.fixture(autouse=True)
def _nothing_leaks(tmp_path: Path) -> Iterator[None]:
    yield
    boards = [Path("/dev/shm", name) for name in (tmp_path / "model" / "fake.boards").read_text().split()]
    deadline = time.monotonic() + 10
    while any(board.exists() for board in boards):
        assert time.monotonic() < deadline, "shared memory was left behind"
        time.sleep(0.02)


def open_application(tmp_path: Path, *arguments: str, **script: object) -> Terminal:
    folder = write_model(tmp_path / "model", **script)
    return Terminal(PROGRAM, [str(folder), *arguments], tmp_path / "home")


def engine_of(terminal: Terminal) -> psutil.Process:
    (engine,) = [
        child for child in psutil.Process(terminal.pid).children() if "worker_host" in " ".join(child.cmdline())
    ]
    return engine


def test_a_question_an_answer_and_good_bye(tmp_path: Path) -> None:
    with open_application(tmp_path, reply="Forty-two, of course.") as terminal:
        terminal.wait_for("ready")
        engine = engine_of(terminal)
        terminal.type("What is the answer?\r")
        terminal.wait_for("Forty-two, of course.")
        terminal.type("\x11")
        assert terminal.exit_code() == 0
        gone, _ = psutil.wait_procs([engine], timeout=10)
        assert gone
        assert b"Traceback" not in terminal.raw
        assert b"\x1b[?1049l" in terminal.raw, "the terminal was not given back"


def test_the_engine_dies_and_the_application_does_not(tmp_path: Path) -> None:
    with open_application(tmp_path, "--ram", "3", length=10**6, token_s=0.01) as terminal:
        terminal.wait_for("ready")
        terminal.type("Go on\r")
        terminal.wait_for("router")
        engine_of(terminal).kill()
        terminal.wait_for("out of memory")
        terminal.type("\x11")
        assert terminal.exit_code() == 0
        assert b"Traceback" not in terminal.raw


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_engine_does_not_outlive_the_application(tmp_path: Path, number: signal.Signals) -> None:
    with open_application(tmp_path, length=10**6, token_s=0.01) as terminal:
        terminal.wait_for("ready")
        terminal.type("Go on\r")
        terminal.wait_for("router")
        engine = engine_of(terminal)
        os.kill(terminal.pid, number)
        terminal.exit_code()
        gone, _ = psutil.wait_procs([engine], timeout=10)
        assert gone
        assert (tmp_path / "model" / "fake.log").exists(), "it did not close in order"


def test_a_refused_model_is_explained(tmp_path: Path) -> None:
    with open_application(tmp_path, refuse="model-2.safetensors is missing: download it again") as terminal:
        terminal.wait_for("model-2.safetensors is missing")


def test_the_terminal_goes_away_while_the_model_loads(tmp_path: Path) -> None:
    with open_application(tmp_path, crash="hang", crash_at="load") as terminal:
        boards = tmp_path / "model" / "fake.boards"
        terminal.wait_until(boards.exists, "shared memory")
        engine = engine_of(terminal)
    gone, _ = psutil.wait_procs([engine], timeout=10)
    assert gone
