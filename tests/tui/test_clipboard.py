import sys

import pytest

from colibri_tui import clipboard


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """A session with X, and a place for programs that only the test has."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":0")
    for name in ("WAYLAND_DISPLAY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
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


def test_within_tmux_the_text_is_in_its_buffers(desktop, monkeypatch):
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    program(desktop, "tmux", f'echo "$@" > {desktop}/told; cat > {desktop}/taken')
    assert clipboard.copy("text") == "tmux"
    assert (desktop / "told").read_text() == "load-buffer -w -\n"
    assert (desktop / "taken").read_text() == "text"


def test_the_desktops_clipboard_comes_before_tmux(desktop, monkeypatch):
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    program(desktop, "xclip", "cat > /dev/null")
    program(desktop, "tmux", "cat > /dev/null")
    assert clipboard.copy("text") == "xclip"
