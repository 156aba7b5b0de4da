"""`colibri-tui config`: every setting, its value, and where that comes from."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from engine.errors import EngineError
from engine.options import KNOB, KNOBS

from .. import paths
from ..key_names import NONE, key_name
from ..key_table import KEY, KEYS, PLACES
from ..keymap import KeyMistakeError, clash, default_keys, parse_entry, read_keymap
from ..launch import current_profile
from ..profiles import BUILT_IN, check_name
from ..render.clean import clean
from ..settings import CONFIG_VARIABLE, UI_HELP, Settings, read_settings, resolve_options, ui_value
from ..settings_file import change_setting
from ..themes import load_themes
from .options import debug_option

_HELP: Final[dict[str, Callable[[str], str]]] = {
    "engine": lambda name: KNOB[name].help, "ui": lambda name: UI_HELP[name], "keys": lambda name: KEY[name].help,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """table: engine, ui or keys. value: None for one that the program chooses. origin: in words."""

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
    found = [one for one in all_settings(settings) if one.table != "keys" or one.origin != "default"]
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
        note = _HELP[one.table](one.name)
        click.echo(clean(f"{one.name:<14} {one.text:<14} {one.origin:<28} {note}").rstrip())
    click.echo("\n'colibri-tui config keys' lists the keys")
    for problem in read_keymap(settings.keys).problems:
        click.echo(clean(f"{settings.path}: {problem}"), err=True)
    click.echo(clean(f"settings file: {settings.path}{'' if settings.path.exists() else ' (not there yet)'}"))


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
    change_setting(settings.path, one.table, one.name, _parsed(one, value, settings))
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


@config.command("keys")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a line")
@debug_option
def keys_(as_json: bool) -> None:
    """List what keys do, by the names that [keys] in the settings file knows.

    'colibri-tui config set keys.stop ctrl+x' changes one, 'unset keys.stop' takes that back. There may be several keys,
    "ctrl+x, f9", or "none".
    """
    settings = read_settings(os.environ)
    keymap = read_keymap(settings.keys)
    place = ""
    for key in sorted(KEYS, key=lambda key: list(PLACES).index(key.place)):
        names, changed = keymap.keys(key.id), key.id in keymap.own
        if as_json:
            one = {
                "name": key.id,
                "keys": names,
                "default": default_keys(key.id),
                "place": key.place,
                "help": key.help,
            }
            click.echo(json.dumps(one))
            continue
        if key.place != place:
            click.echo(("\n" if place else "") + keymap.fill(PLACES[key.place].title))
            place = key.place
        said = ", ".join(map(key_name, names)) or "-"
        click.echo(f"  {key.id:<34} {said:<34} {'changed  ' if changed else ''}{key.help}")
    for problem in keymap.problems:
        click.echo(clean(f"{settings.path}: {problem}"), err=True)


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
    keymap = read_keymap(settings.keys)
    for key in KEYS:
        origin = "settings file" if key.id in keymap.own else "default"
        found.append(Setting("keys", key.id, ", ".join(keymap.keys(key.id)) or NONE, origin))
    return [_profile(one, settings) if one.name == "profile" else one for one in found]


def _profile(one: Setting, settings: Settings) -> Setting:
    """The profile is remembered where the file names none."""
    if one.value is not None:
        return one
    current = current_profile(settings)
    return Setting(one.table, one.name, current, "default" if current == BUILT_IN[0] else "remembered from last time")


def _parsed(one: Setting, value: str, settings: Settings) -> Any:
    """The value as the settings file has it; None to leave it out. Raises EngineError for one that it cannot have."""
    if one.table == "engine":
        knob = KNOB[one.name]
        parsed = knob.parse(value, "VALUE")
        if isinstance(parsed, float) and math.isinf(parsed):
            return knob.unlimited
        return "auto" if parsed is None else parsed
    if one.table == "keys":
        return _parsed_keys(one.name, value, settings)
    if value.lower() == "auto":
        return None
    if one.name == "theme" and value not in (themes := load_themes(paths.themes_dir())[0]):
        raise EngineError(f"there is no theme {value!r}; there are {', '.join(sorted(themes))}")
    return check_name(value) if one.name == "profile" else ui_value(one.name, value)


def _parsed_keys(id: str, value: str, settings: Settings) -> str:
    """The keys as the settings file has them. Raises EngineError for keys that it cannot have."""
    try:
        keys = parse_entry(id, value)
    except KeyMistakeError as error:
        raise EngineError(str(error)) from None
    keymap = read_keymap(settings.keys)
    if words := clash(id, keys, keymap.changed({id: keys})):
        raise EngineError(f"{id}: {words}")
    return ", ".join(keys) or NONE


def _named(name: str, found: list[Setting]) -> Setting:
    table, _, wanted = name.replace("-", "_").rpartition(".")
    found = [one for one in found if table in ("", one.table)] or found
    for one in found:
        if one.name == wanted:
            return one
    near = difflib.get_close_matches(wanted, [one.name for one in found], 1, 0)
    raise EngineError(f"there is no setting {name!r}; did you mean {near[0]!r}?")
