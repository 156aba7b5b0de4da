"""`colibri-tui convert`: make a container of any model that can be read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.options import EngineOptions

from .. import paths
from ..models import disk_use, resolve_model
from ..render.clean import clean
from ..render.units import size
from .completion import model_names
from .options import NAME, debug_option
from .output import Progress

if TYPE_CHECKING:
    from engine.convert.check import Quality
    from engine.engine import Engine

PROMPTS: Final = 16
PROMPT_TOKENS: Final = 64

Tell = Callable[[str, int, int], None]


@click.command()
@click.argument("src", shell_complete=model_names)
@click.argument("dst", required=False, type=click.Path(path_type=Path))
@click.option("--bits", type=click.Choice(["int4", "int8"]), default="int4", show_default=True,
              help="how experts are kept; int4 takes half the room, int8 stays closest to the source")  # fmt: skip
@click.option("--check", is_flag=True, help="compare the result with the source on texts, and show errors by layer")
@click.option("--json", "as_json", is_flag=True, help="print progress and result, one JSON object a line")
@debug_option
def convert(src: str, dst: Path | None, bits: str, check: bool, as_json: bool) -> None:
    """Convert the model SRC into the container DST, which loads faster and takes less room.

    SRC is a folder, a GGUF file or a name; DST a new folder (without it: among the models, by SRC's name and the bits).
    A conversion that was interrupted goes on when the same command is given again.
    """
    from engine.convert import convert_model
    from engine.convert.run import RECORD

    source = resolve_model(src)
    target = dst or paths.models_dir() / f"{source.absolute().name.removesuffix('.gguf')}-{bits}"
    if (source / RECORD).is_file():
        click.echo("SRC is a container already: its weights are rounded a second time; take the original", err=True)
    progress = Progress(sys.stderr)
    tell = json_progress if as_json else progress.show_bytes
    try:
        record = convert_model(source, target, expert_format=bits, progress=tell)
        quality = measure(source, target, progress.show) if check else None
    finally:
        progress.clear()
    if as_json:
        said = {"event": "done", "path": str(target), "bytes": disk_use(target), "record": record}
        click.echo(json.dumps(said | ({"quality": asdict(quality)} if quality else {})))
        return
    name = target.name if target.parent == paths.models_dir() else str(target)
    click.echo(clean(f"{target}: {size(disk_use(target))}, verified; open it with '{NAME} {name}'"))
    if quality is not None:
        show_quality(quality, record)


def json_progress(stage: str, done: int, total: int) -> None:
    """Print progress for a program to read."""
    click.echo(json.dumps({"event": "progress", "stage": stage, "done": done, "total": total}))
    sys.stdout.flush()


def measure(source: Path, target: Path, tell: Tell) -> Quality:
    """Compare a container with its source on the shipped texts."""
    from engine.convert.check import compare

    return compare(source, target, _prompts, EngineOptions(), tell)


def _prompts(engine: Engine) -> list[list[int]]:
    """The beginnings of some texts, of every topic; random ids for a model that has no tokenizer."""
    from engine.bench import random_prompts

    from ..sample_texts import text_ids

    texts = text_ids(engine) or random_prompts(engine.spec.vocab, PROMPT_TOKENS, PROMPTS)
    length = min(PROMPT_TOKENS, engine.info.context)
    return [ids[:length] for ids in texts[:: max(1, len(texts) // PROMPTS)] if len(ids) > 1]


def show_quality(quality: Quality, record: Mapping[str, Any]) -> None:
    """Print how far the container is from its source, and what rounding cost in each layer."""
    from rich.console import Console
    from rich.table import Table

    before, after = quality.perplexity
    console = Console(highlight=False)
    console.print(
        f"\nagainst the source, over {quality.positions:,} positions of the shipped texts:\n"
        f"  divergence (KL)   {quality.kl:.4f} nats on average, {quality.kl_95:.4f} for the worst twentieth\n"
        f"  same first choice {quality.agreement:.1%}\n"
        f"  perplexity        {after:.2f}, the source's is {before:.2f}\n"
    )
    table = Table(box=None, padding=(0, 1))
    for title in ("layer", "experts", "dense, worst tensor"):
        table.add_column(title, justify="right")
    layers: dict[str, dict[str, float]] = {}
    for name, said in record["files"].items():
        kind, _, layer = name.removesuffix(".safetensors").partition("-")
        worst = max(said["error"].values(), default=0.0)
        layers.setdefault(layer.lstrip("0") or "0" if layer.isdigit() else clean(layer), {})[kind] = worst
    for layer, costs in layers.items():
        table.add_row(layer, *(f"{costs[kind]:.2%}" if costs.get(kind) else "" for kind in ("experts", "dense")))
    console.print("error of rounding, relative to the weights (empty: kept as floats)")
    console.print(table)
