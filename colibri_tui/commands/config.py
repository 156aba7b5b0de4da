"""`colibri-tui config`: every setting, its value, and where that comes from."""

from __future__ import annotations

import difflib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from engine.errors import EngineError
from engine.options import KNOB, KNOBS

from .. import paths
from ..launch import current_profile
from ..profiles import BUILT_IN, check_name
from ..render.clean import clean
from ..settings import CONFIG_VARIABLE, UI_HELP, Settings, read_settings, resolve_options, ui_value
from ..settings_file import change_setting
from ..themes import load_themes
from .options import debug_option


@dataclass(frozen=True, slots=True)
class Setting:
    """table: engine or ui. value: None for one that the program chooses. origin: in words."""

    table: str
    name: str
    value: Any
    origin: str

    @property
    def text(self) -> str:
        """The value as one types it."""
        if self.value is None:
            return "auto" if self.table == "ui" or KNOB[self.name].auto else "-"
        if isinstance(self.value, float) and math.isinf(self.value):
            return KNOB[self.name].unlimited
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a line")
@debug_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show every setting, its value and where it comes from.

    A flag wins over an environment variable, that over the settings file, that over the default. The profile is also
    remembered from the last time, below the settings file.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = read_settings(os.environ)
    found = all_settings(settings)
    if as_json:
        for one in found:
            said = {"table": one.table, "name": one.name, "value": one.value, "origin": one.origin}
            click.echo(json.dumps(said))
        return
    table = ""
    for one in found:
        if one.table != table:
            click.echo(f"{'' if not table else chr(10)}[{one.table}]")
            table = one.table
        note = KNOB[one.name].help if one.table == "engine" else UI_HELP[one.name]
        click.echo(clean(f"{one.name:<14} {one.text:<14} {one.origin:<28} {note}").rstrip())
    click.echo(clean(f"\nsettings file: {settings.path}{'' if settings.path.exists() else ' (not there yet)'}"))


@config.command("get")
@click.argument("name")
@debug_option
def get_(name: str) -> None:
    """Print the value of NAME."""
    one = _named(name, all_settings(read_settings(os.environ)))
    click.echo(clean(one.text))


@config.command("set")
@click.argument("name")
@click.argument("value")
@debug_option
def set_(name: str, value: str) -> None:
    """Write NAME = VALUE into the settings file; comments in it stay."""
    settings = read_settings(os.environ)
    one = _named(name, all_settings(settings))
    change_setting(settings.path, one.table, one.name, _parsed(one, value))
    now = _named(name, all_settings(read_settings(os.environ)))
    click.echo(clean(f"{settings.path}: {name} = {value}"))
    if now.origin.startswith("environment"):
        click.echo(f"but {now.origin} wins over it, with {clean(now.text)}", err=True)


@config.command("unset")
@click.argument("name")
@debug_option
def unset(name: str) -> None:
    """Take NAME out of the settings file, so that its default counts."""
    settings = read_settings(os.environ)
    one = _named(name, all_settings(settings))
    change_setting(settings.path, one.table, one.name, None)
    click.echo(clean(f"{settings.path}: {name} is default again"))


@config.command("path")
@debug_option
def path_() -> None:
    """Print where the settings file is, or would be."""
    named = os.environ.get(CONFIG_VARIABLE)
    click.echo(str(Path(named).expanduser() if named else paths.settings_path()))


def all_settings(settings: Settings) -> list[Setting]:
    """Every setting. Raises EngineError for a value out of range."""
    options, origins = resolve_options({}, os.environ, settings)
    found = []
    kept = Settings(settings.path)
    for knob in KNOBS:
        origin: str = origins[knob.name]
        if origin == "environment":
            origin = f"environment variable {knob.env}"
        elif origin == "settings":
            origin = "settings file"
        found.append(Setting("engine", knob.name, getattr(options, knob.name), origin))
    for name in UI_HELP:
        value, default = getattr(settings, name), getattr(kept, name)
        found.append(Setting("ui", name, value, "settings file" if value != default else "default"))
    return [_profile(one, settings) if one.name == "profile" else one for one in found]


def _profile(one: Setting, settings: Settings) -> Setting:
    """The profile is remembered where the file names none."""
    if one.value is not None:
        return one
    current = current_profile(settings)
    return Setting(one.table, one.name, current, "default" if current == BUILT_IN[0] else "remembered from last time")


def _parsed(one: Setting, value: str) -> Any:
    """The value as the settings file has it; None to leave it out. Raises EngineError for one that it cannot have."""
    if one.table == "engine":
        knob = KNOB[one.name]
        parsed = knob.parse(value, "VALUE")
        if isinstance(parsed, float) and math.isinf(parsed):
            return knob.unlimited
        return "auto" if parsed is None else parsed
    if value.lower() == "auto":
        return None
    if one.name == "theme" and value not in (themes := load_themes(paths.themes_dir())[0]):
        raise EngineError(f"there is no theme {value!r}; there are {', '.join(sorted(themes))}")
    return check_name(value) if one.name == "profile" else ui_value(one.name, value)


def _named(name: str, found: list[Setting]) -> Setting:
    wanted = name.replace("-", "_").removeprefix("engine.").removeprefix("ui.")
    for one in found:
        if one.name == wanted:
            return one
    near = difflib.get_close_matches(wanted, [one.name for one in found], 1, 0)
    raise EngineError(f"there is no setting {name!r}; did you mean {near[0]!r}?")
