"""`colibri-tui --plain`: the chat without a screen, with the engine in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import click

from engine.errors import EngineError
from engine.worker import find_factory

from .. import paths
from ..conversations import Conversations
from ..journal import Journal
from ..launch import Launch
from ..plain import PlainChat
from ..profiles import model_key
from .demo import model_folder
from .options import NAME
from .output import Progress, TextOutput
from .run import stopping


def run_plain(start: Launch) -> int:
    """Chat line by line; return the exit code. Raises EngineError when there is no model, or it is refused."""
    if start.model is None:
        raise EngineError(f"which model? '{NAME} --plain MODEL'; '{NAME} models' lists those that are here")
    folder = model_folder(str(start.model))
    options, _ = start.options_for(folder)
    output = TextOutput(sys.stdout, sys.stderr, Progress(sys.stderr, quiet=True), quiet=False)
    journal = Journal(lambda: Conversations(paths.database_path()), lambda line: click.echo(line, err=True))
    try:
        click.echo("Loading the model.")
        opener = find_factory(start.factory)
        with closing(opener(str(folder), options, progress=output.tell, shared_board=False)) as engine:
            PlainChat(engine, journal, model_key(folder), start.profile, sys.stdout, stopping).run(_lines())
    finally:
        journal.close()
    return 0


def _lines() -> Iterator[str]:
    """Yield lines as they are typed, with editing where the system has it."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with suppress(ImportError):
        import readline  # noqa: F401 - gives input() editing and a history
    with suppress(EOFError):
        while True:
            yield input("> ")
