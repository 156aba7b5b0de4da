"""How opening grows with layers and experts, at the counts of real models and small widths.

    python -m tests.benchmarks.bench_structure [glm-5.2 kimi-k2 qwen3-next]

Each shape is opened with a quarter, a half and all of its layers, in a process of its own: tensors, seconds of
processor time to index them, to find every weight and for the whole opening, and memory that the first two take.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.oracle.real_size import SHAPES, config_of, write


def resident() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def measure(folder: Path) -> str:
    """The figures of one checkpoint."""
    from engine import Engine, EngineOptions, Token
    from engine.checkpoint.index import Checkpoint
    from engine.compiling import load_kernels
    from engine.families import read_spec
    from engine.model.weights import Weights

    load_kernels(lambda _: None)
    before, start = resident(), time.process_time()
    checkpoint = Checkpoint.open(folder)
    indexed = time.process_time()
    weights = Weights(checkpoint, read_spec(checkpoint.config))
    found = time.process_time()
    taken, count = resident() - before, len(checkpoint.tensors)
    del checkpoint, weights
    opening = time.process_time()
    with Engine.open(folder, EngineOptions(ram=2.0, cap=16, context=64)) as engine:
        opened = time.process_time()
        events = list(engine.generate(list(range(3, 30)), max_tokens=8, ignore_eos=True))
        layers = int((engine.board.heat.sum(axis=1) > 0).sum())
        assert sum(isinstance(event, Token) for event in events) == 8
        assert layers == len(engine.info.moe_layers)
    return (
        f"{layers:6} {count:8,} {indexed - start:8.2f} s {found - indexed:8.2f} s {opened - opening:8.2f} s "
        f"{taken:8.0f} MB"
    )


def main() -> None:
    """Measure every shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        print(measure(arguments.folder))
        return
    print(f"{'':12} {'layers':>6} {'tensors':>8} {'index':>10} {'find':>10} {'open':>10} {'memory':>11}")
    for shape in arguments.shapes:
        whole = config_of(shape)["num_hidden_layers"]
        for layers in (whole // 4, whole // 2, whole):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place) / shape
                write(folder, shape, layers)
                command = [sys.executable, "-m", "tests.benchmarks.bench_structure", "--folder", str(folder)]
                told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                print(f"{shape:12} {told.rstrip()}", flush=True)


if __name__ == "__main__":
    main()
