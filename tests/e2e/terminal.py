"""A program on a pseudo-terminal, and the screen a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Terminal:
    """Runs Python code on a terminal of `columns` x `lines`; used as a context manager, which ends what still runs."""

    def __init__(self, code: str, arguments: list[str], home: Path, columns: int = 100, lines: int = 30) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        command = [sys.executable, "-c", code, *arguments]
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "COLIBRI_TUI_HOME": str(home),
            "PYTHONPATH": str(ROOT),
        }
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, command, environment)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the text is on the screen."""
        self.wait_until(lambda: text in self.text, text)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Read the terminal until the condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"no {what!r} on the screen:\n{self.text}"
            assert self._pump(), f"the program ended without {what!r}:\n{self.text}"

    def exit_code(self) -> int:
        """Read until the program ends."""
        deadline = time.monotonic() + PATIENCE
        while self._pump():
            assert time.monotonic() < deadline, f"the program did not end:\n{self.text}"
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self._master)

    def _pump(self) -> bool:
        """Take what has come, waiting a moment for it; False at the end."""
        if not select.select([self._master], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
