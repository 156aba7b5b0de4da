"""A real terminal for a test: tmux on a socket of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0


class Terminal:
    """A command in a window of `width` x `height`; `close` ends it, whatever it does."""

    def __init__(self, command: list[str], *, width: int, height: int, env: dict[str, str]) -> None:
        self._socket = f"colibri-{uuid.uuid4().hex[:8]}"
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
            f"cd {shlex.quote(str(ROOT))} && exec env {settings}{shlex.join(command)}",
            ";", "set", "-g", "remain-on-exit", "on", ";", "set", "-s", "escape-time", "0",
        )  # fmt: skip

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text as it is."""
        self._tmux("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        """Paste as a terminal does, in brackets."""
        self._tmux("load-buffer", "-", stdin=text)
        self._tmux("paste-buffer", "-p")

    def screen(self) -> str:
        """What is shown."""
        return self._tmux("capture-pane", "-p")

    def wait(self, condition: Callable[[str], object] | str) -> str:
        """Wait for text, or for a condition on the screen; return the screen."""
        end = time.monotonic() + PATIENCE_S
        while True:
            shown = self.screen()
            if condition in shown if isinstance(condition, str) else condition(shown):
                return shown
            assert time.monotonic() < end, f"waited in vain for {condition}; the screen:\n{shown}"
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """The command's process."""
        return int(self._tmux("display", "-p", "#{pane_pid}"))

    @property
    def ended(self) -> bool:
        """Whether the command has ended."""
        return self._tmux("display", "-p", "#{pane_dead}").strip() == "1"

    def close(self) -> None:
        """End tmux and everything in it."""
        self._tmux("kill-server", check=False)

    def _tmux(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=check,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        return done.stdout


def application(model: Path, home: Path, **env: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of the application with the fake engine."""
    code = (
        "import sys; from colibri_tui.cli import main; from tests.fake_engine import FACTORY;"
        "sys.exit(main(sys.argv[1:], factory=FACTORY))"
    )
    command = [sys.executable, "-c", code, str(model)]
    return command, {"COLIBRI_TUI_HOME": str(home), "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT), **env}
