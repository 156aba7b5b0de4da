"""`colibri-tui [MODEL]`: the application."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from engine.errors import EngineError

from .. import NAME, paths
from ..launch import Launch, launch
from ..models import resolve_model
from ..settings import read_state
from .completion import model_names
from .options import EngineCommand, Program, debug_option, engine_options, given_flags, profile_option

if TYPE_CHECKING:
    from ..app import ColibriApp


class _ChatCommand(EngineCommand):
    """The command that is meant when none is named."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(NAME, "[OPTIONS] [MODEL]")


def _wait(app: ColibriApp) -> None:
    """Let the engine keep the conversation's context, which may take a disk seconds; Ctrl+C gives that up."""
    with suppress(KeyboardInterrupt):
        if not app.join(0.5):
            click.echo("keeping the conversation's context ...", err=True)
            app.join(60.0)


@click.command("(application)", cls=_ChatCommand, hidden=True)
@click.argument("model", required=False, envvar="COLI_MODEL", shell_complete=model_names)
@click.option("--plain", is_flag=True, help="no screen: lines in, lines out (also with ACCESSIBLE=1)")
@profile_option
@engine_options
@debug_option
@click.pass_context
def chat(ctx: click.Context, model: str | None, plain: bool, profile: str | None) -> int:
    """Open the application with MODEL, or with the model used last."""
    folder = resolve_model(model) if model is not None else None
    if folder is None and (last := read_state(paths.state_path()).model):
        try:
            folder = resolve_model(last)
        except EngineError:  # moved or deleted since: the picker shows what there is
            folder = None
    start = launch(ctx.ensure_object(Program).factory, given_flags(ctx), profile=profile, model=folder)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if plain or (terminal and _wants_plain(start)):
        from .plain import run_plain

        return run_plain(start)
    if not terminal or not sys.stderr.isatty():  # what is drawn goes to the error output
        raise click.ClickException(f"the application needs a terminal; '{NAME} --plain' and '{NAME} run' do not")
    from ..app import ColibriApp
    from ..escape_key import hear_escape_at_once

    hear_escape_at_once()
    app = ColibriApp(start)
    code = app.run()
    _wait(app)
    return code if code is not None else app.return_code or 0


def _wants_plain(start: Launch) -> bool:
    """Whether the person, or the terminal, cannot have a screen."""
    accessible = os.environ.get("ACCESSIBLE", "") not in ("", "0")
    return bool(start.settings.plain) or accessible or os.environ.get("TERM") == "dumb"
