"""`colibri-tui profile`: the learned histories, one for each kind of work and model."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.errors import EngineError

from .. import paths
from ..launch import current_profile
from ..models import resolve_model
from ..profiles import check_name, create, existing, list_profiles, model_key, models_of
from ..render.clean import clean
from ..settings import read_settings, read_state, write_state
from .options import debug_option

if TYPE_CHECKING:
    from ..histories import Summary

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 60
SHOWN_TURNS = 10


def _model(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Path | None:
    return None if text is None else resolve_model(text)


_one_model = click.option("--model", callback=_model, metavar="MODEL", help="of this model only  [default: of all]")
_the_model = click.option("--model", callback=_model, metavar="MODEL", required=True, help="the model it is about")
_json = click.option("--json", "as_json", is_flag=True, help="print one JSON object")
_yes = click.option("--yes", "-y", is_flag=True, help="do not ask")


@click.group()
def profile() -> None:
    """Manage what was learned: one history for each profile and model."""


@profile.command("create")
@click.argument("name")
@debug_option
def create_(name: str) -> None:
    """Make an empty profile."""
    click.echo(f"profile {create(name)} made; 'profile switch' uses it from now on, --profile once")


@profile.command("list")
@_json
@debug_option
def list_(as_json: bool) -> None:
    """List the profiles and what each knows."""
    current = current_profile(read_settings(os.environ))
    found = {name: [_summary(name, key) for key in models_of(name)] for name in list_profiles()}
    if as_json:
        click.echo(
            json.dumps({"current": current, "profiles": {n: [_plain(s) for s in known] for n, known in found.items()}})
        )
        return
    table = _table("", "profile", "model", "selections", "experts", "turns", "hits lately", "last used")
    for name, known in found.items():
        heads = ["*" if name == current else "", name]
        for summary in known:
            table.add_row(*heads, *_cells(summary))
            heads = ["", ""]
        if not known:
            table.add_row(*heads, *[""] * 6)
    _print(table)


@profile.command("show")
@click.argument("name", required=False)
@_one_model
@_json
@debug_option
def show(name: str | None, model: Path | None, as_json: bool) -> None:
    """Show what a profile learned, and its learning curve."""
    from ..histories import keys_of

    name = existing(name or current_profile(read_settings(os.environ)))
    known = [_summary(name, key) for key in keys_of(name, model)]
    if as_json:
        click.echo(json.dumps({"profile": name, "models": [_plain(summary, turns=True) for summary in known]}))
        return
    if not known:
        click.echo(f"profile {name} has learned nothing yet")
    for summary in known:
        _show(summary)


@profile.command("switch")
@click.argument("name")
@debug_option
def switch(name: str) -> None:
    """Use a profile from now on, where --profile names no other."""
    settings = read_settings(os.environ)
    name = existing(name)
    if settings.profile not in (None, name):
        raise EngineError(f"{settings.path}: [ui] profile = {settings.profile!r} is used whatever was chosen last")
    write_state(paths.state_path(), replace(read_state(paths.state_path()), profile=name))
    click.echo(f"profile {name} is used from now on")


@profile.command("rename")
@click.argument("old")
@click.argument("new")
@debug_option
def rename_(old: str, new: str) -> None:
    """Give a profile another name."""
    from ..histories import rename

    was_current = check_name(old) == current_profile(read_settings(os.environ))
    new = rename(old, new)
    if was_current:
        write_state(paths.state_path(), replace(read_state(paths.state_path()), profile=new))
    click.echo(f"profile {check_name(old)} is called {new} now")


@profile.command("delete")
@click.argument("name")
@_yes
@debug_option
def delete_(name: str, yes: bool) -> None:
    """Remove a profile and all that it learned."""
    from ..histories import delete, is_built_in

    name = existing(name)
    _sure(yes, f"Remove profile {name} and what it learned about {len(models_of(name))} model(s)?")
    delete(name)
    click.echo(f"profile {name} is {'empty' if is_built_in(name) else 'gone'}")


@profile.command("reset")
@click.argument("name")
@_one_model
@_yes
@debug_option
def reset_(name: str, model: Path | None, yes: bool) -> None:
    """Forget what a profile learned, its turns, and the models' saved conversation memories."""
    from ..histories import keys_of, reset

    keys = keys_of(name, model)
    _sure(yes, f"Forget what profile {check_name(name)} learned about {len(keys)} model(s)?")
    for key in keys:
        reset(name, key)
        click.echo(f"{_shown(key)}: forgotten")


@profile.command("freeze")
@click.argument("name")
@_one_model
@click.option("--off", is_flag=True, help="learn again")
@debug_option
def freeze_(name: str, model: Path | None, off: bool) -> None:
    """Use what a profile learned and add nothing to it, from the next start of the engine on."""
    from ..histories import freeze, keys_of

    keys = keys_of(name, model)
    if not keys:
        raise EngineError(f"profile {check_name(name)} knows no model yet; name one with --model")
    for key in keys:
        freeze(name, key, not off)
        click.echo(f"{_shown(key)}: {'learns again' if off else 'frozen'}")


@profile.command("decay")
@click.argument("name")
@click.argument("factor", type=float)
@_one_model
@debug_option
def decay(name: str, factor: float, model: Path | None) -> None:
    """Multiply all counts by FACTOR, above 0 and up to 1, once. (COLI_USAGE_DECAY does so at every save.)"""
    from ..histories import fade, keys_of

    for key in keys_of(name, model):
        _tell(fade(name, key, factor, model))
        click.echo(f"{_shown(key)}: {_summary(name, key).selections:,} selections left")


@profile.command("import")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@_the_model
@click.option("--add", is_flag=True, help="also if the profile knows the model already: add the counts")
@debug_option
def import_(name: str, file: Path, model: Path, add: bool) -> None:
    """Take over a history (.coli_usage) or pairs (.coli_pairs) that colibrì, another profile or 'trace pairs' wrote.

    Pairs are always added to those that are known.
    """
    from ..histories import add_file, add_pairs, is_pairs

    if file.is_file() and is_pairs(file):
        lines, notices = add_pairs(existing(name), model, file)
        _tell(notices)
        click.echo(f"{lines:,} experts with their followers imported into profile {name}")
        return
    added, notices = add_file(existing(name), model, file, into_empty=not add)
    _tell(notices)
    click.echo(f"{added:,} selections imported into profile {name}")


@profile.command("export")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@_the_model
@click.option("--force", is_flag=True, help="replace FILE")
@debug_option
def export_(name: str, file: Path, model: Path, force: bool) -> None:
    """Write a profile's history as a file that colibrì reads."""
    from ..histories import export

    count = export(existing(name), model, file, replace=force)
    click.echo(f"{file}: {count:,} selections")


@profile.command("merge")
@click.argument("name")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@_the_model
@click.option("--baseline", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="what the sources began with: only what was counted since then is added")  # fmt: skip
@debug_option
def merge(name: str, sources: tuple[str, ...], model: Path, baseline: Path | None) -> None:
    """Add what other profiles or history files counted to profile NAME."""
    from ..histories import add_file, add_pairs, pairs_path
    from ..profiles import usage_path

    name = existing(name)
    names = list_profiles()
    for source in sources:
        file = usage_path(source, model_key(model)) if source in names and source != name else Path(source)
        added, notices = add_file(name, model, file, baseline=baseline)
        _tell(notices)
        click.echo(f"{_shown(source)}: {added:,} selections added to profile {name}")
        if baseline is None and source in names and pairs_path(file).is_file():
            _, notices = add_pairs(name, model, pairs_path(file))
            _tell(notices)


def _summary(name: str, key: str) -> Summary:
    from ..histories import summarise

    return summarise(name, key)


def _plain(summary: Summary, *, turns: bool = False) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "model": summary.key, "file": str(summary.path), "selections": summary.selections, "experts": summary.experts,
        "frozen": summary.frozen, "turns": len(summary.turns),
    }  # fmt: skip
    if turns:
        plain["log"] = [
            {
                "at": turn.at, "prompt": turn.prompt, "tokens": turn.tokens, "hit_rate": turn.hit_rate,
                "hits": [turn.hits.pin, turn.hits.cache, turn.hits.disk], "bytes_a_token": turn.bytes_a_token,
                "tok_s": turn.tok_s, "cap": turn.cap, "pinned": turn.pinned, "memory": turn.memory,
            }
            for turn in summary.turns
        ]  # fmt: skip
    return plain


def _cells(summary: Summary) -> list[str]:
    from ..histories import sum_up

    turns = summary.turns
    lately = sum_up(turns[-SHOWN_TURNS:], 1)
    return [
        _shown(summary.key) + (" (frozen)" if summary.frozen else ""),
        f"{summary.selections:,}",
        f"{summary.experts:,}",
        f"{len(turns):,}",
        _percent(lately[0]) if lately else "",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(turns[-1].at)) if turns else "",
    ]


def _show(summary: Summary) -> None:
    from engine.experts.pins import SELECTIONS_FULL, SELECTIONS_MIN

    from ..histories import sum_up

    trust = min(1.0, summary.selections / SELECTIONS_FULL)
    pins = f"trusted to {100 * trust:.0f} %" if summary.selections >= SELECTIONS_MIN else "too little for --pin auto"
    click.echo(f"{_shown(summary.key)}{': frozen, learns nothing' if summary.frozen else ''}")
    click.echo(f"  {summary.selections:,} selections of {summary.experts:,} experts, {pins}")
    if not summary.turns:
        click.echo("  no turns logged yet")
        return
    rates = sum_up(summary.turns, SPARK_WIDTH)
    line = "".join(" " if rate is None else SPARKS[min(int(rate * len(SPARKS)), len(SPARKS) - 1)] for rate in rates)
    shown = [rate for rate in rates if rate is not None]
    if shown:
        click.echo(f"  hits over {len(summary.turns):,} turns: {line}  {_percent(shown[0])} first, "
                   f"{_percent(shown[-1])} last, scale 0 to 100 %")  # fmt: skip
    table = _table("date", "read", "tokens", "pinned", "cached", "disk", "MB/token", "tok/s", "memory")
    for turn in summary.turns[-SHOWN_TURNS:]:
        total = turn.hits.total
        per_token = turn.bytes_a_token
        table.add_row(
            time.strftime("%Y-%m-%d %H:%M", time.localtime(turn.at)),
            f"{turn.prompt:,}",
            f"{turn.tokens:,}",
            *(_percent(count / total) if total else "" for count in (turn.hits.pin, turn.hits.cache, turn.hits.disk)),
            "" if per_token is None else f"{per_token / 1e6:.2f}",
            f"{turn.tok_s:.1f}" if turn.tok_s else "",
            f"{turn.memory / 1e9:.2f} GB",
        )
    _print(table)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _shown(text: str) -> str:
    return clean(text)


def _tell(notices: tuple[str, ...]) -> None:
    for notice in notices:
        click.echo(clean(notice), err=True)


def _sure(yes: bool, question: str) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise EngineError(f"{question} Nobody is here to ask; --yes goes ahead")
    click.confirm(question, abort=True)


def _table(*heads: str) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, head in enumerate(heads):
        left = place == 0 or head in ("profile", "model", "date", "last used")
        table.add_column(head, justify="left" if left else "right", no_wrap=head in ("date", "last used"))
    return table


def _print(table: Any) -> None:
    from rich.console import Console

    Console().print(table)
