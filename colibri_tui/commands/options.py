"""Options that several commands share; those of the engine are made from `engine.options.KNOBS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from engine.errors import EngineError
from engine.options import KNOBS, Knob

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_FLAGS: Final = f"{__name__}.flags"
_UNITS: Final = {"ram": "GB", "pin_gb": "GB"}
_METAVARS: Final = {"int": "N", "float": "X", "path": "FILE"}
_NEGATIVES: Final = {"direct": "--buffered"}
"""Bool knobs whose negative is not `--no-...`."""


@dataclass
class Program:
    """What `main` and the commands share through click's context object.

    factory: import string of the engine's factory, see `engine.worker`. debug: show tracebacks.
    """

    factory: str
    debug: bool = False


class EngineOption(click.Option):
    """An option that is made from a knob."""


class EngineCommand(click.Command):
    """A command that loads a model: its help lists the engine's options apart."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of `--help`."""
        write_options(self.get_params(ctx), ctx, formatter)


def write_options(params: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write options in two sections, the engine's apart."""
    for title, kind in (("Options", False), ("Engine options", True)):
        options = [param for param in params if isinstance(param, click.Option)]
        records = [option.get_help_record(ctx) for option in options if isinstance(option, EngineOption) is kind]
        with formatter.section(title):
            formatter.write_dl([record for record in records if record is not None])


def engine_options(command: Decorated) -> Decorated:
    """Decorate a command with one option for every knob of the engine; see `given_flags`."""
    return engine_options_but()(command)


def engine_options_but(*names: str) -> Callable[[Decorated], Decorated]:
    """Decorate a command with the engine's options, without those of these knobs."""

    def decorate(command: Decorated) -> Decorated:
        for knob in reversed(KNOBS):
            if knob.name not in names:
                command = _option(knob)(command)
        return command

    return decorate


def given_flags(ctx: click.Context) -> dict[str, Any]:
    """Return the engine options that the command line names, by knob, as typed."""
    flags: dict[str, Any] = ctx.meta.get(_FLAGS, {})
    return flags


def debug_option(command: Decorated) -> Decorated:
    """Decorate a command with `--debug`, which `main` looks at when something fails."""

    def note(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        ctx.ensure_object(Program).debug |= value

    option = click.option(
        "--debug", is_flag=True, is_eager=True, expose_value=False, callback=note, help="show tracebacks"
    )
    return option(command)


def profile_option(command: Decorated) -> Decorated:
    """Decorate a command with `--profile NAME`."""
    option = click.option("--profile", metavar="NAME", help="whose learned history to use")
    return option(command)


def _option(knob: Knob) -> Callable[[Decorated], Decorated]:
    notes = (["lossy"] if knob.lossy else []) + ([f"env {knob.env}"] if knob.env else [])
    text = knob.help + "".join(f" [{note}]" for note in notes)
    keep = _keeper(knob)
    if knob.kind == "bool":
        negative = _NEGATIVES.get(knob.name, "--no-" + knob.name.replace("_", "-"))
        declaration, metavar = f"{knob.flag}/{negative}", None
    else:
        value = [] if knob.kind == "choice" else [_UNITS.get(knob.name) or _METAVARS[knob.kind]]
        words = [*knob.choices, *value, *([knob.unlimited] if knob.unlimited else []), *(["auto"] if knob.auto else [])]
        declaration, metavar = knob.flag, "|".join(words)
    return click.option(
        declaration,
        knob.name,
        cls=EngineOption,
        default=None,
        metavar=metavar,
        expose_value=False,
        callback=keep,
        help=text,
    )


def _keeper(knob: Knob) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that checks a value by the knob's own rules and keeps it as typed."""

    def keep(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value is None:
            return
        try:
            knob.parse(str(value).lower() if knob.kind == "bool" else value, "command line")
        except EngineError as error:
            raise click.UsageError(str(error), ctx) from None
        ctx.meta.setdefault(_FLAGS, {})[knob.name] = value

    return keep
