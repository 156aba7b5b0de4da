"""Compares this engine with llama.cpp on the same machine, models and memory, run by turns.

    make bench-peers        or        python -m tests.benchmarks.bench_peers --models /tmp/models [--shapes olmoe ...]

Needs llama-bench on PATH, and the right to make control groups (root) for the rows with less memory. The models have
random weights and the shapes of real ones (`random_model`, `random_gguf`); they are written once into --models, 8 GB
for OLMoE's shape at int4 (both formats), 64 GB for Qwen3-30B-A3B's at int8.

A row is the median over rounds; in each round both engines run one after the other, and which is first alternates. The
ratio is the median of the rounds' ratios, ours over theirs: above 1 this engine is faster. "memory" is a limit on all
that the process uses, its page cache included, in percent of the GGUF file; the page cache is emptied before each run
there, and the disk's read-ahead set to --read-ahead, which mmap's speed depends on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from engine.checkpoint.gguf_files import open_gguf
from engine.checkpoint.index import Checkpoint
from engine.families import read_spec
from engine.kernels.team import physical_cores

from . import random_gguf, random_model
from .cgroup import drop_cached, memory_limit, run_in

CONTEXT = 16
"""Tokens before the ones that decode is timed on; llama-bench's have none."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Tokens a second."""

    prefill: float
    decode: float


@dataclass(frozen=True, slots=True)
class Row:
    """One case: medians of both engines, and of the ratios."""

    shape: str
    format: str
    memory: str
    routing: str
    rounds: int
    ours: Speeds
    theirs: Speeds
    ratio: Speeds


def set_routing(model: Path, routing: str) -> None:
    """Write the routers for a kind of routing into a model that is there."""
    gguf = model.suffix == ".gguf"
    checkpoint = open_gguf(model) if gguf else Checkpoint.open(model)
    spec = read_spec(checkpoint.config)
    for layer in range(len(spec.layers)):
        name = f"blk.{layer}.ffn_gate_inp.weight" if gguf else spec.names["router"].replace("{L}", str(layer))
        entry = checkpoint.tensors[name]
        data = random_model.router(routing, layer, *entry.shape).astype(np.float32).tobytes()
        assert len(data) == entry.nbytes
        with entry.file.open("r+b") as file:
            file.seek(entry.offset)
            file.write(data)


def our_speeds(model: Path, group: Path | None, ram: float | None, options: argparse.Namespace) -> Speeds:
    """Run `colibri-tui bench` once."""
    command = [
        sys.executable, "-m", "colibri_tui", "bench", str(model), "--json", "--runs", "1",
        "--tokens", str(options.tokens), "--lengths", f"{CONTEXT},{options.prompt}",
        "--threads", str(options.threads), *([] if ram is None else ["--ram", f"{ram:.3f}"]),
    ]  # fmt: skip
    rows = {(row["kind"], row["context"], row["cache"]): row for row in json.loads(run_in(group, command))["rows"]}
    return Speeds(
        rows["prefill", options.prompt, "warm"]["tok_s"],
        rows["decode", CONTEXT, "warm"]["tok_s"],
    )


def their_speeds(model: Path, group: Path | None, options: argparse.Namespace) -> Speeds:
    """Run `llama-bench` once. With less memory than the model its weights stay in the mapped file."""
    command = [
        options.llama_bench, "-m", str(model), "-p", str(options.prompt), "-n", str(options.tokens), "-r", "1",
        "-t", str(options.threads), "-o", "json", *(["--repack", "0"] if group else []),
    ]  # fmt: skip
    found = {("decode" if row["n_gen"] else "prefill"): row["avg_ts"] for row in json.loads(run_in(group, command))}
    return Speeds(**found)


@contextmanager
def read_ahead(path: Path, kilobytes: int) -> Iterator[None]:
    """Set the read-ahead of the disk that holds a path, where that is allowed."""
    device = os.stat(path).st_dev
    setting = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/read_ahead_kb")
    if not os.access(setting, os.W_OK):
        print(f"the disk's read-ahead stays as it is: {setting} cannot be written", file=sys.stderr)
        yield
        return
    before = setting.read_text()
    setting.write_text(str(kilobytes))
    try:
        yield
    finally:
        setting.write_text(before)


def measure(shape: str, fmt: str, ours: Path, theirs: Path, options: argparse.Namespace) -> Iterator[Row]:
    """All rows of one model."""
    size = theirs.stat().st_size
    for routing in options.routing:
        for model in (ours, theirs):
            set_routing(model, routing)
        for memory in options.memory:
            limit = None if memory == "resident" else size * int(memory) // 100
            if limit is None and size > 0.8 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                print(f"{shape} {fmt}: does not fit into this machine's memory", file=sys.stderr)
                continue
            pairs: list[tuple[Speeds, Speeds]] = []
            for number in range(options.rounds):
                found: dict[str, Speeds] = {}
                for who in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                    with memory_limit(limit) as group:
                        if group is not None:
                            drop_cached(ours)
                            drop_cached(theirs)
                        if who == "ours":
                            found[who] = our_speeds(ours, group, limit and limit / 1.05 / 1e9, options)
                        else:
                            found[who] = their_speeds(theirs, group, options)
                    speeds = found[who]
                    print(f"{shape} {fmt} {memory} {routing} {who}: {speeds.prefill:.1f} {speeds.decode:.2f}",
                          file=sys.stderr, flush=True)  # fmt: skip
                pairs.append((found["ours"], found["theirs"]))
            yield Row(
                shape, fmt, memory if limit is None else f"{memory} %", routing, len(pairs),
                _median([a for a, _ in pairs]), _median([b for _, b in pairs]),
                _median([Speeds(a.prefill / b.prefill, a.decode / b.decode) for a, b in pairs]),
            )  # fmt: skip


def _median(speeds: Sequence[Speeds]) -> Speeds:
    return Speeds(statistics.median(s.prefill for s in speeds), statistics.median(s.decode for s in speeds))


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| model | memory | routing | rounds | prefill tok/s: ours, llama.cpp | ratio | decode tok/s: ours, llama.cpp "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.shape} {r.format} | {r.memory} | {r.routing} | {r.rounds} "
        f"| {r.ours.prefill:.1f}, {r.theirs.prefill:.1f} "
        f"| **{r.ratio.prefill:.2f}** | {r.ours.decode:.2f}, {r.theirs.decode:.2f} | **{r.ratio.decode:.2f}** |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="folder for the models")
    parser.add_argument("--shapes", nargs="+", choices=random_model.SHAPES, default=["olmoe", "qwen3-30b"])
    parser.add_argument("--formats", nargs="+", choices=random_gguf.KINDS, default=["int4", "int8"])
    parser.add_argument("--memory", nargs="+", choices=["resident", "50", "25"], default=["resident", "50", "25"])
    parser.add_argument("--routing", nargs="+", choices=random_model.ROUTINGS, default=list(random_model.ROUTINGS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt that prefill is timed on")
    parser.add_argument("--tokens", type=int, default=64, help="tokens that decode is timed on")
    parser.add_argument("--layers", type=int, help="cut the models to so many layers")
    parser.add_argument("--read-ahead", type=int, default=128, metavar="KB")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--remove", action="store_true", help="remove each model when it is measured")
    parser.add_argument("--llama-bench", default=shutil.which("llama-bench"))
    options = parser.parse_args()
    if options.llama_bench is None:
        parser.error("llama-bench is not on PATH; build llama.cpp, or name it with --llama-bench")
    options.models.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with read_ahead(options.models, options.read_ahead):
        for shape in options.shapes:
            for fmt in options.formats:
                ours = options.models / f"{shape}-{fmt}{options.layers or ''}"
                theirs = ours.with_name(ours.name + ".gguf")
                if fmt not in random_model.FORMATS:  # not one of our containers': both read the same file
                    ours = theirs
                if ours != theirs and not ours.exists():
                    random_model.write(shape, fmt, ours, options.layers)
                if not theirs.exists():
                    random_gguf.write(shape, fmt, theirs, options.layers)
                for row in measure(shape, fmt, ours, theirs, options):
                    rows.append(row)
                    if options.json:  # it takes hours: what is known so far is kept
                        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
                if options.remove:
                    shutil.rmtree(ours, ignore_errors=ours == theirs)
                    theirs.unlink()
    print(table(rows))


if __name__ == "__main__":
    main()
