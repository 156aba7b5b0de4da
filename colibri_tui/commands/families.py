"""`colibri-tui models --families`: which models the engine can run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def families_option(command: Decorated) -> Decorated:
    """Decorate a command with `--families`, which lists them and ends."""
    option = click.option(
        "--families",
        is_flag=True,
        expose_value=False,
        callback=_list,
        help="list what can be run instead, with a model of each that people know",
    )
    return option(command)


def _list(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from engine.known_families import KNOWN

    if ctx.params.get("as_json"):
        for family, known in sorted(KNOWN.items()):
            click.echo(json.dumps({"family": family, "models": known.models, "example": known.example or None}))
    else:
        wide, wider = max(map(len, KNOWN)), max(len(known.models) for known in KNOWN.values())
        for family, known in sorted(KNOWN.items()):
            click.echo(f"{family:{wide}}  {known.models:{wider}}  {known.example}".rstrip())
    ctx.exit()
