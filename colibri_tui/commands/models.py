"""`colibri-tui models`: what is on this machine, what could be, and removing."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from engine.errors import EngineError

from .. import NAME
from ..inventory import Installed, installed, removable, remove, unfinished
from ..launch import launch
from ..recommended import recommended
from ..render.clean import clean
from ..render.units import rate, size
from .completion import model_names
from .families import families_option
from .options import Program, debug_option, profile_option
from .output import Progress

if TYPE_CHECKING:
    from engine.outlook import Outlook

    from ..launch import Launch


@click.group(invoke_without_command=True)
@click.option("--forecast", is_flag=True, help="also tell how much of each fits into memory and how fast it will be")
@click.option(
    "--recommended", "which", is_flag=True, help="list models worth getting instead, by this machine's memory"
)
@click.option(
    "--ram", type=click.FloatRange(min=0.1), metavar="GB", help="memory to recommend for [default: all of it]"
)
@click.option("--json", "as_json", is_flag=True, is_eager=True, help="print one JSON object a line")
@families_option
@profile_option
@debug_option
@click.pass_context
def models(
    ctx: click.Context, forecast: bool, which: bool, ram: float | None, as_json: bool, profile: str | None
) -> None:
    """List the models on this machine: this program's, and those in the hub's cache.

    Each can be opened by its name.
    """
    if ctx.invoked_subcommand is not None:
        return
    if which:
        _recommend(ram, as_json)
        return
    found = installed()
    views: dict[str, Outlook | str] = {}
    if forecast:
        progress = Progress(sys.stderr)
        try:
            start = launch(ctx.ensure_object(Program).factory, {}, profile=profile)
            for one in found:
                progress.show(f"looking at {one.name}", 0, 0)
                views[one.name] = _outlook(one, start, progress)
        finally:
            progress.clear()
    if as_json:
        for one in found:
            click.echo(json.dumps(_json(one, views.get(one.name))))
        return
    _show(found, views, forecast)


@models.command("remove")
@click.argument("name", shell_complete=model_names)
@click.option("--yes", "-y", is_flag=True, help="do not ask")
@debug_option
def remove_(name: str, yes: bool) -> None:
    """Remove the model NAME, and what is unfinished of it. What was learned about it stays."""
    what = (
        ", ".join(str(path) for path in removable(name)) or "its copy in the hub's cache, which other programs may use"
    )
    if not yes:
        click.confirm(clean(f"remove {what}?"), abort=True)
    click.echo(f"{clean(name)}: removed, {size(remove(name))} are free again")


def _outlook(one: Installed, start: Launch, progress: Progress) -> Outlook | str:
    """What a model does here, or why that cannot be told."""
    from engine.outlook import examine, learned, outlook

    from ..inventory import weight_files
    from ..machine_speed import machine_speed
    from ..profiles import model_key, usage_path

    try:
        options, _ = start.options_for(one.path)
        model = examine(one.path, options)
        facts = model.forms[0]
        machine = machine_speed(weight_files(one.path), facts.expert, progress.show, fresh=False)
        known = learned(usage_path(start.profile, model_key(one.path)), model)
        return outlook(model, facts, options, machine, *known)
    except EngineError as error:
        return str(error)


def _json(one: Installed, view: Outlook | str | None) -> dict[str, Any]:
    said: dict[str, Any] = {**asdict(one), "path": str(one.path)}
    if isinstance(view, str):
        return {**said, "problem": one.problem or view}
    if view is not None:
        said |= {"cap": view.plan.cap, "share": view.share, "hits": asdict(view.hits), "tok_s": view.speed.tok_s}
    return said


def _show(found: list[Installed], views: dict[str, Outlook | str], forecast: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    if not found:
        console.print(
            f"no model here yet; '{NAME} demo' builds a small one, '{NAME} models --recommended' lists others"
        )
    else:
        table = Table(box=None, padding=(0, 1))
        for title in ("model", "family", "on disk", "last used", *(("in memory", "forecast") if forecast else ()), ""):
            right = title in ("on disk", "in memory", "forecast")
            table.add_column(title, justify="right" if right else "left", no_wrap=bool(title))
        for one in found:
            view = views.get(one.name)
            told = ("", "") if forecast else ()
            if forecast and view is not None and not isinstance(view, str):
                told = (f"{view.share:.0%}", rate(view.speed.tok_s))
            problem = one.problem or (view if isinstance(view, str) else "")
            note = problem or ("in the hub's cache" if one.cached else "")
            cells = (one.name, one.family or "-", size(one.nbytes), _when(one.last_used), *told, note)
            table.add_row(*map(clean, cells))
        console.print(table)
    for left in unfinished():
        console.print(
            clean(f"unfinished: {left.name} ({size(left.nbytes)}); give its command again, or '{NAME} models remove "
                  f"{left.name}'"), soft_wrap=True,
        )  # fmt: skip


def _when(last_used: float | None) -> str:
    return "never" if last_used is None else time.strftime("%Y-%m-%d", time.localtime(last_used))


def _recommend(ram: float | None, as_json: bool) -> None:
    from rich.console import Console

    from engine.plan import available_memory

    memory = ram or available_memory() / 1e9 + 1
    found = recommended(memory)
    if as_json:
        for one in found:
            click.echo(json.dumps({**asdict(one), "command": one.command}))
        return
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    if not found:
        console.print(f"none is comfortable with {memory:.0f} GB; '{NAME} demo' builds a small one that is")
    for one in found:
        console.print(
            f"{one.repo}: {one.why}\n  {one.disk:g} GB on disk, good from {one.memory:g} GB of memory", soft_wrap=True
        )
        console.print(f"  {one.command}", soft_wrap=True)
    console.print(f"\n'{NAME} plan REPO' tells what one would do on this machine before it is fetched", soft_wrap=True)
