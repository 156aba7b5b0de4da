"""What the screen has done by commands of this program: getting models, and forecasting what they will do.

Both need the engine's compiler, which the screen's process must not load, and a download goes on at the next attempt
wherever its process ended.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

from engine.errors import EngineError

from . import NAME
from .processes import child_environ, end
from .render.clean import clean

_LOOK_S: Final = 0.1

REPOSITORY: Final = re.compile(r"(https?://[^/\s]+/)?[\w.-]+/[\w.-]+(@[\w./-]+)?(:[\w.-]+)?")
"""What is taken for a repository's name when it is no folder."""


def is_repository(text: str) -> bool:
    """Whether a text can name a model on a hub."""
    return not text.startswith((".", "/", "~")) and REPOSITORY.fullmatch(text) is not None


class StoppedError(Exception):
    """It was stopped, as was asked."""


def fetch(repo: str, progress: Callable[[str, int, int], None], stop: threading.Event) -> Path:
    """Get a model, in few bits; returns its folder.

    `stop` ends it at once; the next attempt goes on from there. Raises EngineError, StoppedError.
    """
    for said in _told(stop, "pull", repo, "--convert", "auto", "--json"):
        match said:
            case {"event": "progress", "stage": str(stage), "done": int(done), "total": int(total)}:
                progress(stage, done, total)
            case {"event": "done", "path": str(path)}:
                return Path(path)
    raise EngineError(f"{repo}: the download ended without a model; try again")


def forecasts(stop: threading.Event) -> Generator[dict[str, Any], None, None]:
    """What `models --forecast` tells of each model on this machine. Raises EngineError, StoppedError."""
    return _told(stop, "models", "--forecast", "--json")


def _told(stop: threading.Event, *arguments: str) -> Generator[dict[str, Any], None, None]:
    """Run a command of this program and yield the objects that it prints, until `stop` is set.

    Raises EngineError with what it said last, StoppedError.
    """
    command = [sys.executable, "-P", "-m", "colibri_tui", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environ()
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        threading.Thread(target=_end_on, args=(stop, child), daemon=True).start()
        try:
            for line in child.stdout:
                if line.endswith(b"\n"):  # the last one may be cut
                    yield json.loads(line)
            code = child.wait()
            if stop.is_set():
                raise StoppedError
            if code != 0:
                raise EngineError(_last_words(child.stderr.read(), child.returncode))
        finally:
            end(child)


def _end_on(stop: threading.Event, child: subprocess.Popen[bytes]) -> None:
    """End the child as soon as `stop` is set: it may be saying nothing for a long time."""
    while child.poll() is None:
        if stop.wait(_LOOK_S):
            end(child)


def _last_words(output: bytes, code: int) -> str:
    lines = [line.strip() for line in clean(output.decode("utf-8", "replace")).split("\n") if line.strip()]
    return lines[-1].removeprefix(f"{NAME}: ") if lines else f"it ended with exit code {code} and said nothing"
