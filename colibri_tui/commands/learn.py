"""`colibri-tui learn`: answer a set of prompts, so that a profile knows the work before it begins."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.errors import EngineError

from ..launch import launch
from ..render.clean import clean
from .completion import model_names
from .model import model_folder
from .options import EngineCommand, Program, debug_option, engine_options, given_flags, profile_option
from .output import Progress

if TYPE_CHECKING:
    from engine.lab.lessons import Learned
    from engine.lab.prompts import Prompt


@click.command(cls=EngineCommand)
@click.argument("model", shell_complete=model_names)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, path_type=Path))
@click.option("--tokens", type=click.IntRange(2, 4096), default=64, show_default=True, help="tokens a reply")
@click.option("--as-given", is_flag=True, help="keep the order of the files")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@profile_option
@engine_options
@debug_option
@click.pass_context
def learn(
    ctx: click.Context,
    model: str,
    files: tuple[Path, ...],
    tokens: int,
    as_given: bool,
    as_json: bool,
    profile: str | None,
) -> None:
    """Answer the prompts in FILE, text files or folders of them, and let the profile learn from them.

    They are taken in an order in which neighbours are likely to use the same experts, so that they share reads.
    """
    from engine.opening import compile_first

    folder = model_folder(model)
    progress = Progress(sys.stderr)
    compile_first(folder, progress.loading)
    from engine.engine import Engine
    from engine.lab.lessons import learn as answer
    from engine.lab.prompts import ids_of, prompt_files, read_prompt

    prompts = [read_prompt(file) for given in files for file in (prompt_files(given) if given.is_dir() else [given])]
    if not prompts:
        raise EngineError(f"{files[0]}: no prompts in it; name text files, or folders that hold them")
    start = launch(ctx.ensure_object(Program).factory, given_flags(ctx), profile=profile, model=folder)
    options, _ = start.options_for(folder)
    with closing(Engine.open(folder, options, progress=progress.loading)) as engine:
        ids = [ids_of(engine, prompt, tokens) for prompt in prompts]
        result = answer(
            engine,
            ids,
            tokens,
            options.policy or "auto",
            lambda done: progress.show("answering", done, len(ids)),
            as_given=as_given,
        )
        expert_bytes = engine.info.expert_bytes
    progress.clear()
    if as_json:
        lessons = [{"file": prompts[lesson.place].name, **asdict(lesson)} for lesson in result.lessons]
        click.echo(
            json.dumps({"profile": start.profile, "learned": options.learn, "expert_bytes": expert_bytes,
                        "selections": result.selections, "reads_measured": result.read,
                        "reads_replayed": result.in_order, "reads_replayed_as_given": result.as_given,
                        "saved": result.saved, "lessons": lessons})
        )  # fmt: skip
        return
    _show(result, prompts, expert_bytes)
    where = f"profile {start.profile}" if options.usage is None else options.usage
    learned = f"{result.selections:,} selections went into {where}" if options.learn else "nothing was learned (frozen)"
    click.echo(learned)


def _show(result: Learned, prompts: list[Prompt], expert_bytes: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("prompt", "read", "tokens", "hits", "MB from disk"):
        table.add_column(head, justify="left" if head == "prompt" else "right")
    for lesson in result.lessons:
        cells: list[Any] = [clean(prompts[lesson.place].name), f"{lesson.prompt_tokens:,}", f"{lesson.tokens:,}"]
        table.add_row(*cells, f"{100 * lesson.hit_rate:.0f} %", f"{lesson.read * expert_bytes / 1e6:.1f}")
    Console().print(table)
    click.echo(
        f"{result.read:,} experts were read (measured). Replayed from the recorded routing: {result.in_order:,} in "
        f"this order, {result.as_given:,} in the order given, {100 * result.saved:.1f} % saved"
    )
