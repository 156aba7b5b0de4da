"""On a machine's first start the kernels are compiled, with progress, before anything imports and compiles them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_engine import write_model

RUN = """
import sys
from engine import opening
from colibri_tui.cli import main

def compile_first(model, progress):
    assert "engine.kernels.products" not in sys.modules
    assert callable(progress)
    print("first", model)
    sys.exit(0)

opening.compile_first = compile_first
main(sys.argv[1:])
"""


@pytest.mark.parametrize("command", ["bench", "ab", "learn", "convert"])
def test_kernels_come_first(command: str, tmp_path: Path) -> None:
    model, prompt = write_model(tmp_path / "model"), tmp_path / "prompt.txt"
    prompt.write_text("Hello")
    more = {"learn": [str(prompt)], "convert": [str(tmp_path / "target")]}.get(command, [])
    done = subprocess.run(
        [sys.executable, "-c", RUN, command, str(model), *more], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"first {model}\n", "")
