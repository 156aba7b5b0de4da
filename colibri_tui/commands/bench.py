"""`colibri-tui bench`: what a model does on this machine, beside what the machine could do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from ..launch import launch
from ..sample_texts import text_ids
from .completion import model_names
from .model import model_folder
from .options import EngineCommand, Program, debug_option, engine_options, given_flags, profile_option
from .output import Progress

if TYPE_CHECKING:
    from rich.table import Table

    from engine.bench import Limits, Row
    from engine.engine import Engine

LENGTHS: Final = (32, 256, 1024)
MB: Final = 1e6


@click.command(cls=EngineCommand)
@click.argument("model", shell_complete=model_names)
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="runs of every case")
@click.option("--tokens", type=click.IntRange(8, 4096), default=48, show_default=True, help="tokens a reply")
@click.option("--lengths", metavar="N,N,...", default=",".join(map(str, LENGTHS)), show_default=True,
              help="prompt lengths in tokens")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@profile_option
@engine_options
@debug_option
@click.pass_context
def bench(
    ctx: click.Context, model: str, runs: int, tokens: int, lengths: str, as_json: bool, profile: str | None
) -> None:
    """Measure MODEL: prefill and decode at several lengths, cold and warm.

    Prompts rotate and are never repeated; memory and disk speed are measured in the same run, and the history is left
    alone.
    """
    from engine.opening import compile_first

    folder = model_folder(model)
    progress = Progress(sys.stderr)
    compile_first(folder, progress.loading)
    from engine.bench import Bench, measure_limits
    from engine.engine import Engine

    flags = {**given_flags(ctx), "learn": False, "warm": False}  # the cache is cold first
    options, _ = launch(ctx.ensure_object(Program).factory, flags, profile=profile, model=folder).options_for(folder)
    with closing(Engine.open(folder, options, progress=progress.loading)) as engine:
        progress.show("measuring memory and disk", 0, 1)
        limits = measure_limits(engine)
        rows: list[Row] = []
        measured = Bench(engine, text_ids(engine), runs, tokens)
        for row in measured.rows(_parse_lengths(lengths), lambda text: progress.show(text, len(rows), 8)):
            rows.append(row)
        progress.clear()
        if as_json:
            click.echo(json.dumps({"model": engine.info.model, "plan": asdict(engine.info.plan),
                                   "limits": asdict(limits), "rows": [asdict(row) for row in rows]}))  # fmt: skip
        else:
            _show(engine, limits, rows)


def _parse_lengths(text: str) -> Sequence[int]:
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--lengths {text!r}: expected whole numbers separated by commas") from None
    if not lengths or min(lengths) < 1:
        raise click.UsageError(f"--lengths {text!r}: a prompt has at least one token")
    return lengths


def _show(engine: Engine, limits: Limits, rows: Sequence[Row]) -> None:
    from rich.console import Console

    console = Console()
    info = engine.info
    console.print(f"{info.model} ({info.family}), {info.plan.cap} of {info.experts} experts a layer in memory")
    reads = "direct" if limits.direct else "buffered: part of it may be the page cache's"
    console.print(
        f"machine: memory {limits.memory / 1e9:.1f} GB/s, disk {limits.disk / 1e9:.2f} GB/s at "
        f"{limits.expert_bytes / MB:.2f} MB a read ({reads})\n"
    )
    speed = _table("", "tokens", "cache", "tok/s", "range", "x bound", "hits", "MB/tok", "device")
    for row in rows:
        speed.add_row(
            *_case(row),
            f"{row.tok_s:.2f}",
            f"{row.spread[0]:.1f}-{row.spread[1]:.1f}",
            "" if row.bound is None else f"{row.seconds / row.bound:.2f}",
            f"{row.hit_rate:.0%}",
            f"{row.asked / MB:.1f}",
            "" if row.device is None or not row.asked else f"{row.device / row.asked:.0%}",
        )
    console.print(speed)
    console.print(
        "x bound: time a token over max(active bytes / memory rate, bytes needed / disk rate), rates measured\n"
        "beside each run.\n"
        "device: share of the bytes read that came from the disk itself, the page cache served the rest.\n"
    )
    parts = list(rows[0].split)
    split = _table("", "tokens", "cache", *parts)
    for row in rows:
        split.add_row(*_case(row), *(f"{row.split[part]:.0%}" for part in parts))
    console.print(split)


def _table(*titles: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1))
    for title in titles:
        table.add_column(title, justify="left" if title in ("", "cache") else "right", no_wrap=True)
    return table


def _case(row: Row) -> tuple[str, str, str]:
    return row.kind, f"{row.context:,}", row.cache
