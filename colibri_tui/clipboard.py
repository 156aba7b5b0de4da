"""The system's clipboard, by its own programs where there are any.

Terminals take OSC 52 as well, but some drop it without a word, and over ssh it is the only way. So both are tried, and
the reader is told which one it was. tmux drops it as well unless it is told otherwise, but has a command that keeps the
text in its own buffers and hands it to the terminal outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

TIMEOUT_S = 2.0


def _program() -> list[str] | None:
    """Return the command that takes the clipboard's text on its standard input, if this session has one."""
    if sys.platform == "darwin":
        return ["pbcopy"]
    choices = []
    if os.environ.get("WAYLAND_DISPLAY"):
        choices.append(["wl-copy"])
    if os.environ.get("DISPLAY"):
        choices += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    if os.environ.get("TMUX"):
        choices.append(["tmux", "load-buffer", "-w", "-"])
    return next((command for command in choices if shutil.which(command[0])), None)


def copy(text: str) -> str | None:
    """Copy through a program and return its name; None if there is none, or it failed. May take seconds."""
    command = _program()
    if command is None:
        return None
    try:
        subprocess.run(
            command,
            input=text.encode(errors="replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return command[0]
