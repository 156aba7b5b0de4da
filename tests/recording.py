"""Records the real application on the demo model, in a terminal, as an asciicast (asciinema.org plays it).

    python -m tests.recording [FILE]

Keys come from a script, so that the recording can be made again after every change. The instruments are drawn twice a
second, as over ssh: that keeps the file small. Pauses are cut to what a reader needs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from colibri_tui import paths
from colibri_tui.models import demo_folder, is_model
from tests.e2e.terminal import Terminal

COLUMNS, ROWS = 110, 32
PAUSE_MAX_S = 1.2
KEY_S = 0.05
START = (
    "import os, sys; os.environ.update(SSH_TTY='x', COLORTERM='truecolor'); from colibri_tui.cli import main; main()"
)
PLACEHOLDER = "Write a message"


class Recorder:
    """A terminal whose output is kept with the time it came at."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.events: list[tuple[float, str]] = []
        self._taken = 0
        self._start = time.monotonic()

    def pump(self, seconds: float) -> None:
        """Take what comes for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.terminal._pump()
            fresh = self.terminal.raw[self._taken :]
            text = fresh.decode(errors="ignore")
            if text and text.encode() == fresh:  # else a character is still incomplete
                self.events.append((time.monotonic() - self._start, text))
                self._taken = len(self.terminal.raw)

    def until(self, condition: Callable[[str], bool], patience: float = 300.0) -> None:
        """Take what comes until the screen is as wanted."""
        end = time.monotonic() + patience
        while not condition(self.terminal.text):
            if time.monotonic() > end:
                raise SystemExit(f"the application did not get there in time:\n{self.terminal.text}")
            self.pump(0.1)

    def type(self, text: str) -> None:
        """Type as a person does."""
        for character in text:
            self.terminal.type(character)
            self.pump(KEY_S)

    def restart_clock(self) -> None:
        """Let everything so far be there at once: nobody watches a program load."""
        self.events = [(0.0, "".join(text for _, text in self.events))]
        self._start = time.monotonic()

    def cast(self) -> str:
        """Return the recording."""
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "colibri-tui"}
        lines = [json.dumps(header)]
        shown = last = 0.0
        for at, text in self.events:
            shown += min(at - last, PAUSE_MAX_S)
            last = at
            lines.append(json.dumps([round(shown, 3), "o", text]))
        return "\n".join(lines) + "\n"


def play(recorder: Recorder) -> None:
    """Chat, look at the atlas, edit and resend, change colours."""
    recorder.until(lambda text: " ready" in text and PLACEHOLDER in text)
    recorder.type("/max-tokens 160\r")
    recorder.pump(0.5)
    recorder.restart_clock()
    recorder.type("Write a Python function that returns the n-th Fibonacci number.")
    recorder.type("\r")
    recorder.until(lambda text: "answering" in text)
    recorder.until(lambda text: " ready" in text)
    recorder.pump(1.0)
    recorder.type("\x1b[12~")  # F2: the atlas
    recorder.pump(1.5)
    recorder.type("o")
    recorder.pump(1.5)
    recorder.type("\x1b[12~")
    recorder.pump(0.7)
    recorder.type("/te")
    recorder.pump(0.7)
    recorder.type("\t0.2\r")
    recorder.pump(0.7)
    recorder.type("\x14")  # Ctrl+T: themes
    recorder.pump(0.7)
    for _ in range(4):
        recorder.type("\x1b[B")
        recorder.pump(0.7)
    recorder.type("\x1b")
    recorder.pump(1.0)


def main() -> None:
    """Make the recording."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "screenshots" / "session.cast"
    model = demo_folder()
    if not is_model(model):
        raise SystemExit("there is no demo model yet: `colibri-tui demo` builds it")
    with tempfile.TemporaryDirectory() as home:
        models = Path(home) / "data" / "models"
        models.mkdir(parents=True)
        (models / "demo").symlink_to(model)
        (Path(home) / "cache").symlink_to(paths.cache_dir())
        with Terminal(START, [str(models / "demo")], Path(home), COLUMNS, ROWS) as terminal:
            recorder = Recorder(terminal)
            play(recorder)
            terminal.type("\x11")  # Ctrl+Q
            terminal.exit_code()
    target.write_text(recorder.cast(), encoding="utf-8")
    print(f"{target}: {os.path.getsize(target) // 1024} KiB")


if __name__ == "__main__":
    main()
