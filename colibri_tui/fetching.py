"""What the screen has done by commands of this program: getting models, and forecasting what they will do.

Both need the engine's compiler, which the screen's process must not load, and a download goes on at the next attempt
wherever its process ended.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

from engine.errors import EngineError

from .commands.options import NAME
from .processes import child_environ, end
from .render.clean import clean

REPOSITORY: Final = re.compile(r"(https?://[^/\s]+/)?[\w.-]+/[\w.-]+(@[\w./-]+)?")
"""What is taken for a repository's name when it is no folder."""


def is_repository(text: str) -> bool:
    """Whether a text can name a model on a hub."""
    return not text.startswith((".", "/", "~")) and REPOSITORY.fullmatch(text) is not None


def fetch(repo: str, progress: Callable[[str, int, int], None]) -> Path:
    """Get a model, in few bits; returns its folder.

    What `progress` raises ends it; the next attempt goes on from there. Raises EngineError.
    """
    for said in _told("pull", repo, "--convert", "auto", "--json"):
        match said:
            case {"event": "progress", "stage": str(stage), "done": int(done), "total": int(total)}:
                progress(stage, done, total)
            case {"event": "done", "path": str(path)}:
                return Path(path)
    raise EngineError(f"{repo}: the download ended without a model; try again")


def forecasts() -> Generator[dict[str, Any], None, None]:
    """What `models --forecast` tells of each model on this machine. Raises EngineError."""
    return _told("models", "--forecast", "--json")


def _told(*arguments: str) -> Generator[dict[str, Any], None, None]:
    """Run a command of this program and yield the objects that it prints. Raises EngineError with what it said last."""
    command = [sys.executable, "-P", "-m", "colibri_tui", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environ()
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            for line in child.stdout:
                yield json.loads(line)
            if child.wait() != 0:
                raise EngineError(_last_words(child.stderr.read(), child.returncode))
        finally:
            end(child)


def _last_words(output: bytes, code: int) -> str:
    lines = [line.strip() for line in clean(output.decode("utf-8", "replace")).split("\n") if line.strip()]
    return lines[-1].removeprefix(f"{NAME}: ") if lines else f"it ended with exit code {code} and said nothing"
