"""`colibri-tui --plain`: the chat without a screen, with the engine in this process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final

import click

from engine.errors import EngineError
from engine.worker import find_factory

from .. import NAME, paths
from ..conversations import Conversations
from ..journal import Journal
from ..launch import Launch
from ..plain import PlainChat
from ..profiles import model_key
from .model import model_folder
from .output import Progress, TextOutput
from .stopping import stopping

TWICE_SECONDS: Final = 1.5
"""Ctrl+C twice within this time, while nothing is answered, ends the program."""


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
        import readline  # gives input() editing and a history

        if os.environ.get("TERM", "dumb") != "dumb":  # else it would print what is sent to ask the terminal for it
            readline.parse_and_bind("set enable-bracketed-paste on")  # a paste of many lines is one message
    interrupted = -TWICE_SECONDS
    with suppress(EOFError):
        while True:
            try:
                line = input("> ")
            except KeyboardInterrupt:  # meant for an answer that has just ended, perhaps
                if time.monotonic() - interrupted < TWICE_SECONDS:
                    raise
                interrupted = time.monotonic()
                click.echo("\nCtrl+C again, Ctrl+D or /quit ends.")
            else:
                yield line
