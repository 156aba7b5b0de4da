"""`colibri-tui convert`: make a container of any model that can be read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from engine.options import EngineOptions

from .. import NAME, paths
from ..models import disk_use, resolve_model
from ..render.clean import clean
from ..render.units import size
from .completion import model_names
from .options import debug_option
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
@click.option("--group", type=click.Choice(["auto", "32", "64", "128"]), default="auto", show_default=True,
              help="weights that share a scale in int4: more is smaller and coarser; auto measures it")  # fmt: skip
@click.option("--check", is_flag=True, help="compare the result with the source on texts, and show errors by layer")
@click.option("--json", "as_json", is_flag=True, help="print progress and result, one JSON object a line")
@debug_option
def convert(src: str, dst: Path | None, bits: str, group: str, check: bool, as_json: bool) -> None:
    """Convert the model SRC into the container DST, which loads faster and takes less room.

    SRC is a folder, a GGUF file or a name; DST a new folder (without it: among the models, by SRC's name and the bits).
    A conversion that was interrupted goes on when the same command is given again.
    """
    from engine.opening import compile_first

    if group != "auto" and bits == "int8":
        raise click.UsageError("--group is for int4: int8 has a scale for each row")

    source = resolve_model(src)
    progress = Progress(sys.stderr)
    compile_first(source, progress.loading)
    from engine.convert import convert_model
    from engine.convert.choice import GROUPS
    from engine.convert.run import RECORD

    from .conversion_report import choices, show_quality

    target = dst or paths.models_dir() / f"{source.absolute().name.removesuffix('.gguf')}-{bits}"
    if (source / RECORD).is_file():
        click.echo("SRC is a container already: its weights are rounded a second time; take the original", err=True)
    groups = GROUPS if group == "auto" else (int(group),)
    tell = json_progress if as_json else progress.show_bytes
    try:
        record = convert_model(source, target, expert_format=bits, groups=groups, progress=tell)
        quality = measure(source, target, progress.show) if check else None
    finally:
        progress.clear()
    if as_json:
        said = {"event": "done", "path": str(target), "bytes": disk_use(target), "record": record}
        click.echo(json.dumps(said | ({"quality": asdict(quality)} if quality else {})))
        return
    name = target.name if target.parent == paths.models_dir() else str(target)
    click.echo(clean(f"{target}: {size(disk_use(target))}, verified; open it with '{NAME} {name}'"))
    for line in choices(record):
        click.echo(line)
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
