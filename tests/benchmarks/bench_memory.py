"""Holds the engine to its memory plan: a long mixed session in a control group that allows 5 % more.

    python -m tests.benchmarks.bench_memory MODEL --ram 1.5 [--minutes 30] [--threads N] [--json]

MODEL can be a random one (`random_model`). The session changes topics, begins conversations, goes on with them until
the context is full, edits, stops and continues, keeps its state in a file and takes it up again. Whoever uses more than
plan + 5 % in the group is killed by the kernel; page cache counts there, but is given up first. Besides, the process's
resident set (anonymous, shared and mapped files) is sampled, and the largest share of the plan is printed. Needs the
right to make control groups (root).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine import Engine, EngineOptions, Notice, Token
from engine.errors import EngineError

from .cgroup import memory_limit

ALLOWED: Final = 1.05
SAMPLE_S: Final = 0.1
PARTS: Final = ("RssAnon", "RssShmem", "RssFile")


@dataclass(slots=True)
class Usage:
    """The most that was seen of each part of the resident set, and of their sum, in bytes."""

    most: dict[str, int] = field(default_factory=dict)

    def sample(self, pid: int) -> None:
        """Look at a process; one that is gone counts nothing."""
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return
        now = {key: int(value.split()[0]) * 1024 for key, _, value in (line.partition(":") for line in lines)
               if key in PARTS}  # fmt: skip
        now["total"] = sum(now.values())
        self.most.update({key: max(value, self.most.get(key, 0)) for key, value in now.items()})


def session(model: Path, options: EngineOptions, seconds: float, seed: int) -> Iterator[dict[str, Any]]:
    """Load and talk; yields the plan, then what was done, then the sum."""
    choose = random.Random(seed)
    done: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, Engine.open(model, options) as engine:
        yield {"plan": engine.info.plan.total, "budget": engine.info.plan.budget, "context": engine.info.context}
        state, held, computed = Path(folder) / "state", [1], 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step = choose.choices(STEPS, WEIGHTS)[0]
            done[step] = done.get(step, 0) + 1
            match step:
                case "begin":
                    held = _words(engine, choose, choose.choice((3, 40, 300)))
                case "edit":
                    held = held[: choose.randrange(1, len(held) + 1)] + _words(engine, choose, 10)
                case "fill":
                    held = held + _words(engine, choose, max(1, engine.info.context - len(held) - 20))
                case "go on":
                    held = held + _words(engine, choose, choose.choice((1, 30, 200)))
                case "keep" if engine.conversation.ids:
                    engine.save_state(state)
                case "take up" if state.exists():
                    engine.load_state(state)
                    held = list(engine.conversation.ids)
                case "topic":
                    engine.repin_for(Path(folder) / f"topic{choose.randrange(3)}" / "model" / ".coli_usage")
            if len(held) > engine.info.context - 8:
                held = held[: engine.info.context // 3]
            held, tokens = _answer(engine, choose, held, min(time.monotonic() + 20, end))
            computed += tokens
        yield {"done": done, "tokens": computed}


STEPS: Final = ("begin", "edit", "fill", "go on", "keep", "take up", "topic", "continue")
WEIGHTS: Final = (4, 3, 1, 6, 1, 1, 1, 3)


def _words(engine: Engine, choose: random.Random, count: int) -> list[int]:
    """Ids of one topic: a narrow range of the vocabulary."""
    start = choose.randrange(max(1, engine.spec.vocab - 500))
    return [start + choose.randrange(min(500, engine.spec.vocab)) for _ in range(count)]


def _answer(engine: Engine, choose: random.Random, prompt: list[int], until: float) -> tuple[list[int], int]:
    """Let the engine answer; it is stopped when `until` has come. Returns all ids, and how many were made."""
    made: list[int] = []
    timer = threading.Timer(max(0.0, min(until - time.monotonic(), choose.choice((2.0, 60.0)))), engine.stop)
    timer.start()
    try:
        for event in engine.generate(
            prompt, max_tokens=choose.choice((8, 40, 120)), temperature=1.0, nucleus=0.9, seed=1, ignore_eos=True
        ):
            if isinstance(event, Token):
                made.append(event.id)
            elif isinstance(event, Notice):
                print(event.text, file=sys.stderr)
    finally:
        timer.cancel()
    return prompt + made, len(made)


def measure(model: Path, ram: float, minutes: float, extra: Sequence[str]) -> dict[str, Any]:
    """Run a session in a group of its own and watch it."""
    command = [sys.executable, "-m", __spec__.name, str(model), "--ram", str(ram), "--minutes", str(minutes), *extra]
    usage = Usage()
    result: dict[str, Any] = {}
    with memory_limit(int(ram * 1e9 * ALLOWED), "colibri-memory") as group:
        assert group is not None

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        with subprocess.Popen(
            [*command, "--inside"], stdout=subprocess.PIPE, text=True, preexec_fn=enter
        ) as process:  # fmt: skip
            assert process.stdout is not None
            reader = threading.Thread(target=_read, args=(process.stdout, result, group), daemon=True)
            reader.start()
            while process.poll() is None:
                usage.sample(process.pid)
                time.sleep(SAMPLE_S)
            reader.join()
        result["killed"] = process.returncode == -9
        result["exit"] = process.returncode
    return {**result, "most": usage.most, "share": usage.most.get("total", 0) / result["plan"] if result else 0.0}


def _read(lines: Iterator[str], result: dict[str, Any], group: Path) -> None:
    """Take what the session tells; once its plan is known, that is what counts."""
    for line in lines:
        told = json.loads(line)
        result.update(told)
        if "plan" in told:
            limit = group / "memory.limit_in_bytes"
            (limit if limit.exists() else group / "memory.max").write_text(str(int(told["plan"] * ALLOWED)))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--ram", type=float, required=True, help="GB")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--context", type=int)
    parser.add_argument("--pin", default="off")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        with tempfile.TemporaryDirectory() as folder:
            history = Path(folder) / "first" / "model" / ".coli_usage"
            options = EngineOptions(
                ram=asked.ram, threads=asked.threads, context=asked.context, pin=asked.pin, repin=64,
                history=str(history),
            )  # fmt: skip
            for told in session(asked.model, options, asked.minutes * 60, asked.seed):
                print(json.dumps(told), flush=True)
        return
    extra = ["--pin", asked.pin, "--seed", str(asked.seed)]
    for name in ("threads", "context"):
        if (value := getattr(asked, name)) is not None:
            extra += [f"--{name}", str(value)]
    try:
        result = measure(asked.model, asked.ram, asked.minutes, extra)
    except (EngineError, OSError) as error:
        sys.exit(str(error))
    if asked.json:
        print(json.dumps(result))
    else:
        most = {name: f"{value / 1e6:,.0f} MB" for name, value in result["most"].items()}
        print(f"plan {result.get('plan', 0) / 1e6:,.0f} MB, most {most}")
        print(f"largest share of the plan: {result['share']:.3f}{'; KILLED' if result['killed'] else ''}")
        print(f"{result.get('tokens', 0):,} tokens, {result.get('done', {})}")
    sys.exit(result["exit"] != 0 or result["share"] > ALLOWED)


if __name__ == "__main__":
    main()
