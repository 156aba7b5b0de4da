"""What the live atlas costs the engine: speed of a computation on all cores, with the panes drawn and without.

    python -m tests.benchmarks.bench_atlas_cost [--seconds 5] [--rounds 6]

The whole program on a pseudo-terminal of 290 x 60, with a fake engine that answers 20 tokens a second over 76 x 256
experts. Beside it one process for every core computes, as nice as the engine (10). In turns the column of panes is
shown (ten frames a second) and hidden (Ctrl+B); the chat goes on in both. Prints how much slower the computation is
while it is shown, for every round and the median, which is worth something on an idle machine only; and what share of
all cores' time the screen's process takes for it, which a busy machine distorts less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import numpy as np
import psutil

from engine.worker_host import give_way
from tests.benchmarks.bench_echo import PROGRAM, drain
from tests.e2e.terminal import Terminal
from tests.fake_engine import write_model

NICENESS = 10
SIDE = b"\x02"  # Ctrl+B


def compute(count: Synchronized[int]) -> None:
    """Multiply without end, and count; in a session of its own, as the engine is."""
    os.setsid()
    give_way(NICENESS)
    weights, row = np.ones((512, 512), np.float32), np.ones(512, np.float32)
    while True:
        for _ in range(20):
            row = np.tanh(weights @ row)
        count.value += 1


def speed(counts: list[Synchronized[int]], terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Return steps a second of all processes while the terminal is read, and the screen's share of all cores, in %."""
    screen = psutil.Process(terminal.pid)
    before, start, spent = sum(count.value for count in counts), time.monotonic(), sum(screen.cpu_times()[:2])
    drain(terminal, seconds)
    passed = time.monotonic() - start
    share = 100 * (sum(screen.cpu_times()[:2]) - spent) / passed / len(counts)
    return (sum(count.value for count in counts) - before) / passed, share


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    counts = [context.Value("q", 0) for _ in range(os.cpu_count() or 1)]
    workers = [context.Process(target=compute, args=(count,), daemon=True) for count in counts]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        model = write_model(
            Path(folder) / "fake", layers=76, dense_layers=0, experts=256, length=10**9, token_s=0.05, context=10**9
        )
        with Terminal(PROGRAM, [str(model)], Path(folder) / "home", 290, 60) as terminal:
            terminal.wait_for("ready")
            for worker in workers:
                worker.start()
            os.write(terminal._master, b"go on\r")
            drain(terminal, 5.0)
            losses, costs = [], []
            for n in range(given.rounds):
                shown, with_panes = speed(counts, terminal, given.seconds)
                os.write(terminal._master, SIDE)
                drain(terminal, 0.5)
                hidden, without = speed(counts, terminal, given.seconds)
                os.write(terminal._master, SIDE)
                drain(terminal, 0.5)
                losses.append(100 * (1 - shown / hidden))
                costs.append(with_panes - without)
                words = f"shown {shown:9.1f}, hidden {hidden:9.1f} steps/s: {losses[-1]:+.2f} %"
                print(f"round {n + 1}: {words}; screen {with_panes:.1f} and {without:.1f} % of all cores", flush=True)
            print(f"median loss while the panes are drawn: {statistics.median(losses):+.2f} %")
            print(f"median share of all cores that the panes take: {statistics.median(costs):.2f} %")
        for worker in workers:
            worker.kill()


if __name__ == "__main__":
    main()
