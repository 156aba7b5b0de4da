"""Child processes that must not outlive what they were started for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

_PATIENCE_SECONDS = 5.0


def child_environ() -> dict[str, str]:
    """Return an environment in which a child finds these packages, also when they are not installed."""
    home = str(Path(__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": home + os.pathsep + inherited if inherited else home}


def end(process: subprocess.Popen[Any]) -> None:
    """Make sure that a process has ended, by force if it does not want to."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
