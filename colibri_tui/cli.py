"""`colibri-tui`: one program with a few commands; without one, the application.

Exit codes: 0 done, 1 refused or failed (one line on stderr that says what to do), 2 wrong usage, 130 interrupted.
Tracebacks are for `--debug`.
"""

from __future__ import annotations

import importlib.metadata
import sys
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

import click
from click.shell_completion import CompletionItem

from engine.errors import EngineError
from engine.worker import ENGINE

from . import NAME
from .commands.ab import ab
from .commands.bench import bench
from .commands.chat import chat
from .commands.completion import VARIABLE, completion, model_names
from .commands.config import config
from .commands.convert import convert
from .commands.demo import demo
from .commands.doctor import doctor
from .commands.learn import learn
from .commands.models import models
from .commands.options import Program, write_options
from .commands.plan import plan
from .commands.profile import profile
from .commands.pull import pull
from .commands.run import run
from .commands.trace import trace
from .render.clean import clean

INTERRUPTED: Final = 130

SECTIONS: Final = {
    "Getting a model": ("demo", "models", "plan", "pull", "convert"),
    "Using it": ("run", "bench"),
    "What it learns": ("profile", "learn", "ab", "trace"),
    "The program itself": ("doctor", "config", "completion"),
}
"""Every command, as `--help` lists them."""


class _Commands(click.Group):
    """A group whose first argument may also be a model or an option of the application: that belongs to `chat`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for param in self.get_params(ctx) for name in param.opts}
        if ctx.resilient_parsing and not args:  # a shell asks what may come first
            return super().parse_args(ctx, args)
        if not args or (args[0] not in self.commands and args[0] not in own):
            args = [str(chat.name), *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the first word: a command, or a model."""
        commands = super().shell_complete(ctx, incomplete)
        models = [item for item in model_names(ctx, chat.params[0], incomplete) if item.type != "dir" or not commands]
        return [*commands, *models]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(NAME, "[OPTIONS] [MODEL]")
        formatter.write_usage(NAME, "COMMAND [ARGS]...", prefix=" " * len("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=300)) for name in names])
        write_options([*chat.params, *self.get_params(ctx)], ctx, formatter)


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    try:
        version = importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        version = "(run from its sources, not installed)"
    click.echo(f"{NAME} {version}")
    ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="show the version")
def cli() -> None:
    """Chat with Mixture-of-Experts models larger than memory, and watch their experts.

    MODEL is a folder, the name of a model that was pulled or converted, or `demo`; without it, the one used last.
    """


cli.add_command(chat)
cli.add_command(run)
cli.add_command(demo)
cli.add_command(pull)
cli.add_command(convert)
cli.add_command(models)
cli.add_command(plan)
cli.add_command(doctor)
cli.add_command(bench)
cli.add_command(trace)
cli.add_command(ab)
cli.add_command(learn)
cli.add_command(profile)
cli.add_command(config)
cli.add_command(completion)


def main(argv: Sequence[str] | None = None, *, factory: str = ENGINE) -> int:
    """Run the program and return its exit code. `factory` is the import string of the engine's factory."""
    program = Program(factory)
    sys.excepthook = _hook(program)
    try:
        code: int | None = cli.main(argv, prog_name=NAME, standalone_mode=False, obj=program, complete_var=VARIABLE)
    except click.UsageError as error:
        in_chat = error.ctx is None or error.ctx.command is chat
        where = NAME if in_chat or error.ctx is None else error.ctx.command_path
        return _fail(program, f"{error.format_message()} (see {where} --help)", error.exit_code)
    except click.ClickException as error:
        return _fail(program, error.format_message(), error.exit_code)
    except EngineError as error:
        return _fail(program, str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return code or 0


def _fail(program: Program, text: str, code: int) -> int:
    if program.debug:
        traceback.print_exc()
    print(_line(text), file=sys.stderr)
    return code


def _line(text: str) -> str:
    return f"{NAME}: {' '.join(clean(text).split())}"


def _hook(program: Program) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Return what is done with an exception that nobody expected: one line, and all of it for `--debug`."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if program.debug:
            sys.__excepthook__(kind, error, trace)
        else:
            print(_line(f"unexpected {kind.__name__}: {error} (--debug shows where)"), file=sys.stderr)

    return show
