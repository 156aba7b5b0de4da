import sys

import pytest

from colibri_tui import clipboard


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """A session with X, and a place for programs that only the test has."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return tmp_path


def program(folder, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_the_systems_program_gets_the_text(desktop):
    program(desktop, "xclip", f"cat > {desktop}/taken")
    assert clipboard.copy("naïve \ud800") == "xclip"
    assert (desktop / "taken").read_text() == "naïve ?"


def test_wayland_comes_first(desktop, monkeypatch):
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    program(desktop, "wl-copy", "cat > /dev/null")
    program(desktop, "xclip", "exit 1")
    assert clipboard.copy("text") == "wl-copy"


def test_a_program_that_fails_has_not_copied(desktop):
    program(desktop, "xclip", "exit 1")
    assert clipboard.copy("text") is None


def test_a_program_that_hangs_is_given_up(desktop, monkeypatch):
    monkeypatch.setattr(clipboard, "TIMEOUT_S", 0.1)
    program(desktop, "xclip", "exec sleep 20")
    assert clipboard.copy("text") is None


def test_without_a_session_there_is_none(desktop, monkeypatch):
    monkeypatch.delenv("DISPLAY")
    program(desktop, "xclip", "exit 0")
    assert clipboard.copy("text") is None
