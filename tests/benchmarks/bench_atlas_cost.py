"""What the live atlas costs the engine: speed of a computation on all cores, with the panes drawn and without.

    python -m tests.benchmarks.bench_atlas_cost [--seconds 5] [--rounds 6] [--no-engine]

The whole program on a pseudo-terminal of 290 x 60, with a fake engine that answers 20 tokens a second over 76 x 256
experts. Beside it one process for every core computes, as nice as the engine (10). In turns the column of panes is
shown (ten frames a second) and hidden (Ctrl+B); the chat goes on in both. All panes come first, then the atlas alone.
Prints for every round and as medians how much slower the computation is while it is shown, which is worth something on
an idle machine only; and how much of all cores' time the screen's process takes for it, which other work distorts
little. With --no-engine nothing computes beside it: the second figure alone, for a machine that is busy anyway.
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

from colibri_tui.paths import HOME_VARIABLE, state_path
from colibri_tui.settings import State, write_state
from colibri_tui.widgets.panes import HIDDEN_AT_FIRST, PANE
from colibri_tui.widgets.panes.atlas_pane import AtlasPane
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
    share = 100 * (sum(screen.cpu_times()[:2]) - spent) / passed / (os.cpu_count() or 1)
    return (sum(count.value for count in counts) - before) / passed, share


def measure(
    name: str, hidden_panes: frozenset[str], counts: list[Synchronized[int]], seconds: float, rounds: int
) -> None:
    """Run the program with some panes hidden from the start; print what the others cost."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        model = write_model(
            Path(folder) / "fake", layers=76, dense_layers=0, experts=256, length=10**9, token_s=0.05, context=10**9
        )
        home = Path(folder) / "home"
        os.environ[HOME_VARIABLE] = str(home)
        write_state(state_path(), State(layout={"side": True, "hidden": sorted(hidden_panes)}))
        with Terminal(PROGRAM, [str(model)], home, 290, 60) as terminal:
            terminal.wait_for("ready")
            os.write(terminal._master, b"go on\r")
            drain(terminal, 5.0)
            losses, costs = [], []
            for n in range(rounds):
                shown, with_panes = speed(counts, terminal, seconds)
                os.write(terminal._master, SIDE)
                drain(terminal, 0.5)
                hidden, without = speed(counts, terminal, seconds)
                os.write(terminal._master, SIDE)
                drain(terminal, 0.5)
                costs.append(with_panes - without)
                words = f"screen {with_panes:.1f} and {without:.1f} % of all cores"
                if counts:
                    losses.append(100 * (1 - shown / hidden))
                    words += f"; shown {shown:9.1f}, hidden {hidden:9.1f} steps/s: {losses[-1]:+.2f} %"
                print(f"{name}, round {n + 1}: {words}", flush=True)
    print(f"{name}: median share of all cores {statistics.median(costs):.2f} %")
    if losses:
        print(f"{name}: median loss of the computation {statistics.median(losses):+.2f} %")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--no-engine", action="store_true")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    counts = [context.Value("q", 0) for _ in range(0 if given.no_engine else os.cpu_count() or 1)]
    workers = [context.Process(target=compute, args=(count,), daemon=True) for count in counts]
    for worker in workers:
        worker.start()
    measure("all panes", HIDDEN_AT_FIRST, counts, given.seconds, given.rounds)
    measure("atlas alone", frozenset(PANE) - {AtlasPane.NAME}, counts, given.seconds, given.rounds)
    for worker in workers:
        worker.kill()


if __name__ == "__main__":
    main()
