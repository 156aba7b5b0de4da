"""How long a key takes to its echo while the engine answers at full speed: the whole program on a pseudo-terminal.

    python -m tests.benchmarks.bench_echo [--keys N] [--size WxH] [--text markdown|paragraph] [--token-s S]
    python -m tests.benchmarks.bench_echo --ends TURNS [--size WxH]
    python -m tests.benchmarks.bench_echo --model FOLDER

A fake engine of 76 x 256 experts in its own process answers without end, hundreds of tokens a second: Markdown with
lists, tables and code, or one paragraph that never ends. With --model a real engine of COLIBRI_TUI_HOME answers one
prompt after another. With --ends the fake engine's answers take a third of a second, and keys come quickly around
their ends, where most is drawn. The panes are drawn live. Keys are pressed one at a time at irregular moments; the
echo has come when the terminal is told to write the letter. Prints median, p90, p99 and the largest, in milliseconds,
idle first and then while answering.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import statistics
import tempfile
import time
from pathlib import Path

from tests.benchmarks.bench_transcript import ANSWER
from tests.e2e.terminal import Terminal
from tests.fake_engine import FACTORY, write_model

PROGRAM = f"import sys; from colibri_tui.cli import main; sys.exit(main(factory={FACTORY!r}))"
REAL = "import sys; from colibri_tui.cli import main; sys.exit(main())"
TIMEOUT_S = 5.0
END_TOKENS, END_TOKEN_S = 30, 0.01
"""Answers with --ends: how long they are, and seconds a token."""
WORDS = "experts stream from disk **while** the `kernel` computes, and the answer goes on; "


def drain(terminal: Terminal, seconds: float) -> None:
    """Read what comes for some time, as a terminal does."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal._master], [], [], left)[0]:
            os.read(terminal._master, 1 << 16)


def echo_ms(terminal: Terminal, key: str) -> float:
    """Press a key and wait until the terminal is told to write it: a letter that nothing else on the screen has."""
    start = time.monotonic()
    os.write(terminal._master, key.encode())
    seen = b""
    while time.monotonic() - start < TIMEOUT_S:
        if select.select([terminal._master], [], [], 0.05)[0]:
            seen = seen[-256:] + os.read(terminal._master, 1 << 16)
            if key.encode() in seen:
                return (time.monotonic() - start) * 1000
    raise TimeoutError(f"no echo of {key!r}")


def measure(terminal: Terminal, keys: int, seed: int, *, sends: bool = False) -> list[float]:
    """Press `keys` keys and return the delays; sends: what was typed is sent now and then, so that there is a queue."""
    rng = random.Random(seed)
    delays = []
    for n in range(keys):
        if sends and n % 10 == 0:
            os.write(terminal._master, b"\r")
        drain(terminal, 0.05 + rng.random() * 0.15)
        delays.append(echo_ms(terminal, LETTERS[n % len(LETTERS)]))
    return delays


def around_ends(terminal: Terminal, turns: int) -> list[float]:
    """Ask so many times, and return the delays of keys that were pressed until after each answer."""
    rng = random.Random(3)
    delays = [echo_ms(terminal, LETTERS[0])]
    for _ in range(turns):
        os.write(terminal._master, b"\r")
        end = time.monotonic() + 2 * END_TOKENS * END_TOKEN_S
        while time.monotonic() < end:
            drain(terminal, 0.005 + rng.random() * 0.045)
            delays.append(echo_ms(terminal, LETTERS[len(delays) % len(LETTERS)]))
    return delays


def report(name: str, delays: list[float]) -> None:
    """Print one line."""
    ranked = sorted(delays)
    p90, p99 = (ranked[min(len(ranked) - 1, int(len(ranked) * share))] for share in (0.90, 0.99))
    print(
        f"{name:>10}  median {statistics.median(ranked):5.1f}  p90 {p90:5.1f}  p99 {p99:5.1f}  max {ranked[-1]:5.1f} ms"
    )


LETTERS = [chr(0x400 + n) for n in range(0x10, 0x50)]
"""Cyrillic letters: the answer and the rest of the screen have none."""


def run(code: str, model: str, home: Path, size: tuple[int, int], keys: int, *, sends: bool) -> None:
    """Measure and print."""
    with Terminal(code, [model], home, *size) as terminal:
        terminal.wait_for("ready")
        drain(terminal, 1.0)
        report("idle", measure(terminal, keys, 1))
        os.write(terminal._master, b"\x03")
        drain(terminal, 2.0)
        os.write(terminal._master, b"go on\r")
        drain(terminal, 3.0)
        report("answering", measure(terminal, keys, 2, sends=sends))


def run_ends(model: str, home: Path, size: tuple[int, int], turns: int) -> None:
    """Measure around the ends of answers, and print."""
    with Terminal(PROGRAM, [model], home, *size) as terminal:
        terminal.wait_for("ready")
        drain(terminal, 1.0)
        report("ends", around_ends(terminal, turns))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--token-s", type=float, default=0.0, help="seconds a token of the fake engine takes")
    parser.add_argument("--text", choices=["markdown", "paragraph"], default="markdown")
    parser.add_argument("--size", default="200x60", type=lambda text: tuple(map(int, text.split("x"))))
    parser.add_argument("--model", help="a real model instead of the fake engine")
    parser.add_argument("--ends", type=int, default=0, help="measure around the ends of so many short answers")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        if given.model:
            home = Path(os.environ.get("COLIBRI_TUI_HOME", home))
            run(REAL, given.model, home, given.size, given.keys, sends=True)
            return
        reply = f"{ANSWER}\n\n" if given.text == "markdown" else WORDS * 40
        length, token_s = (END_TOKENS, END_TOKEN_S) if given.ends else (10**9, given.token_s)
        model = write_model(
            Path(folder) / "fake", layers=76, dense_layers=1, experts=256, reply=reply, length=length,
            token_s=token_s, context=10**9,
        )  # fmt: skip
        if given.ends:
            run_ends(str(model), home, given.size, given.ends)
            return
        run(PROGRAM, str(model), home, given.size, given.keys, sends=False)


if __name__ == "__main__":
    main()
