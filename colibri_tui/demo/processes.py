"""Child processes that must not outlive what they were started for."""

from __future__ import annotations

import subprocess
from typing import Any

_PATIENCE_SECONDS = 5.0


def end(process: subprocess.Popen[Any]) -> None:
    """Make sure that a process has ended, by force if it does not want to."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
