"""How long a start takes: kernels once per machine, later starts until ready, the first frame.

    python -m tests.benchmarks.bench_start MODEL [--runs N]

Three things are timed, each in fresh processes. First start: `run` of one token with an empty cache folder, so that
all kernels are compiled. Ready: from the command to the `ready` event of `run --json`, with compiled kernels; beside it
the time that reading the dense part takes at the speed measured for it. First frame: from the command to the composer
on a pseudo-terminal of 120x40. All but the first are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.e2e.terminal import Terminal

SHOWN = "Write a message"


def ready(model: Path, environment: dict[str, str]) -> tuple[float, dict[str, Any]]:
    """Seconds from the command to the event `ready`, and the event."""
    command = [sys.executable, "-m", "colibri_tui", "run", str(model), "--ids", "1", "--max-tokens", "1", "--json"]
    before = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                seconds = time.monotonic() - before
                process.communicate()
                return seconds, event
    sys.exit(f"{model}: not loaded")


def first_frame(home: str) -> float:
    """Seconds from the command to the composer."""
    before = time.monotonic()
    with Terminal("from colibri_tui.cli import main; main()", [], Path(home), columns=120, lines=40) as terminal:
        terminal.wait_for(SHOWN)
        return time.monotonic() - before


def read_seconds(model: Path, nbytes: int) -> float:
    """Seconds to read so many bytes of the model's largest file, past the page cache as far as that is possible."""
    file = max((path for path in model.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    with file.open("rb", buffering=0) as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before, left = time.monotonic(), nbytes
        while left > 0 and (count := len(opened.read(min(left, 1 << 24)))):
            left -= count
    return time.monotonic() - before


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "COLIBRI_TUI_HOME": home, "TERM": "xterm-256color"}
        first, event = ready(options.model, environment)
        later = statistics.median(ready(options.model, environment)[0] for _ in range(options.runs))
        frame = statistics.median(first_frame(home) for _ in range(options.runs))
    reading = read_seconds(options.model, event["dense_bytes"])
    print(f"first start, kernels compiled: {first:.1f} s until ready")
    print(
        f"later starts: {later:.2f} s until ready; reading {event['dense_bytes'] / 1e9:.2f} GB of it is {reading:.2f} s"
    )
    print(f"first frame: {frame:.2f} s")


if __name__ == "__main__":
    main()
