"""Settings, which a person edits, and state, which the program remembers.

`settings.toml` has three tables: `[engine]`, with the options of `engine.options`, `[ui]`, and `[keys]` (`keymap`):

    [engine]
    ram = 12.5          # GB, or "auto"
    [ui]
    theme = "ember"
    [keys]
    stop = "ctrl+x"

A mistake in it stops the start with one line that names the file and the key; nothing is guessed or skipped. A key
that cannot be is only told: no text is written and no engine started by it.
`state.json` is the program's own: if it cannot be read, the program starts as if it were new.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from engine import EngineError, EngineOptions
from engine.files import FileLock, reason, replace_file
from engine.options import KNOB, KNOBS, Knob, parse_bool

from . import paths
from .profiles import check_name

T = TypeVar("T")
Origin = Literal["command", "flag", "environment", "settings", "default"]
"""Where an option comes from; a command such as /ram holds until the program ends."""

CONFIG_VARIABLE = "COLIBRI_CONFIG_PATH"
_SIZE_MAX = 1 << 20
_GB_MAX = 1e6


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings file says; None where it says nothing.

    path: the file. engine: option name -> value, checked. keys: the table [keys], not checked: `keymap.read_keymap`
    does. The rest: see `UI_HELP`.
    """

    path: Path
    engine: dict[str, Any] = field(default_factory=dict)
    theme: str | None = None
    profile: str | None = None
    ascii: bool | None = None
    reduce_motion: bool | None = None
    plain: bool | None = None
    keep_state: float = 2.0
    keys: dict[str, Any] = field(default_factory=dict)


_UI_KEYS: dict[str, type[str] | type[bool] | type[float]] = {
    "theme": str, "profile": str, "ascii": bool, "reduce_motion": bool, "plain": bool, "keep_state": float,
}  # fmt: skip
_KIND = {str: "a text", bool: "true or false", float: "a number"}
UI_HELP = {
    "theme": "colours; /theme tries them",
    "profile": "whose learned history is used when none is named; auto: the one used last",
    "ascii": "draw with plain ASCII only; auto: where the locale is not UTF-8",
    "reduce_motion": "draw the instruments once a second, and animate nothing",
    "plain": "no screen at all: lines in, lines out, for screen readers and for logs",
    "keep_state": "GB on disk for what the engine remembers of conversations; 0: none",
}
"""The keys of the table [ui], and what each means."""


def read_settings(environ: Mapping[str, str], path: Path | None = None) -> Settings:
    """Read the settings file: `path`, or the one `COLIBRI_CONFIG_PATH` names, else the person's own.

    Only the one that is named must exist. Raises EngineError, naming the file and the key, for anything in it that is
    not understood.
    """
    named = None if path is not None else environ.get(CONFIG_VARIABLE)
    path = path or (Path(named).expanduser() if named else paths.settings_path())
    tables = _read_toml(path, required=bool(named))
    for name, table in tables.items():
        _check_key(name, ("engine", "ui", "keys"), f"{path}: ", "table")
        if not isinstance(table, dict):
            raise EngineError(f"{path}: {name} must be a table: write [{name}] and its keys below it")
    engine = {}
    for name, value in tables.get("engine", {}).items():
        _check_key(name, KNOB, f"{path}: [engine] ", "key")
        engine[name] = _value(KNOB[name], value, f"{path}: [engine] {name}")
    ui = {name: _ui_value(name, value, f"{path}: [ui] ") for name, value in tables.get("ui", {}).items()}
    if "profile" in ui:
        try:
            check_name(ui["profile"])
        except EngineError as error:
            raise EngineError(f"{path}: [ui] profile: {error}") from error
    return Settings(path, engine, **ui, keys=tables.get("keys", {}))


def _ui_value(name: str, value: Any, where: str) -> Any:
    """A value of the table [ui]; numbers are taken with and without a point."""
    _check_key(name, _UI_KEYS, where, "key")
    kind = _UI_KEYS[name]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise EngineError(f"{where}{name}: {value!r} is not {_KIND[kind]}")
    if isinstance(value, float) and not 0 <= value <= _GB_MAX:
        raise EngineError(f"{where}{name}: {value:g} is outside 0..{_GB_MAX:g}")
    return value


def is_switch(name: str) -> bool:
    """Whether a key of the table [ui] is on or off."""
    return _UI_KEYS[name] is bool


def ui_value(name: str, text: str) -> Any:
    """Read the value of a key of the table [ui] from text. Raises EngineError."""
    try:
        value = parse_bool(text) if is_switch(name) else _UI_KEYS[name](text)
    except ValueError:
        raise EngineError(f"{name}: {text!r} is not {_KIND[_UI_KEYS[name]]}") from None
    return _ui_value(name, value, "")


def resolve_options(
    flags: Mapping[str, Any], environ: Mapping[str, str], settings: Settings
) -> tuple[EngineOptions, dict[str, Origin]]:
    """Decide every engine option: a flag wins over the environment, that over the settings, that over the default.

    flags: option name -> value, as typed (text) or parsed; None, or no entry, means it was not given.
    environ: an empty variable counts as unset. Only the names in `KNOBS` are read.
    Returns the options and, for each, where its value comes from. Raises EngineError for a value out of range.
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for knob in KNOBS:
        variable = environ.get(knob.env) if knob.env else None
        if flags.get(knob.name) is not None:
            values[knob.name] = _value(knob, flags[knob.name], "command line")
            origins[knob.name] = "flag"
        elif variable:
            values[knob.name] = _value(knob, variable, f"environment variable {knob.env}")
            origins[knob.name] = "environment"
        elif knob.name in settings.engine:
            values[knob.name] = settings.engine[knob.name]
            origins[knob.name] = "settings"
        else:
            origins[knob.name] = "default"
    return EngineOptions(**values), origins


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered from run to run. layout: sizes and visibility of panes, as the screen chooses."""

    model: str | None = None
    profile: str | None = None
    conversation: int | None = None
    layout: dict[str, Any] = field(default_factory=dict)


def read_state(path: Path) -> State:
    """Return the remembered state; what is missing or not understood takes its default."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return State()
    if not isinstance(stored, dict):
        return State()
    return State(
        _typed(stored.get("model"), str),
        _typed(stored.get("profile"), str),
        _typed(stored.get("conversation"), int),
        _typed(stored.get("layout"), dict) or {},
    )


def write_state(path: Path, state: State) -> None:
    """Remember the state, whole or not at all. Raises EngineError when it cannot be written."""
    data = json.dumps(asdict(state), indent=1).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            replace_file(path, data, path.with_name(f"{path.name}.new"))
    except OSError as error:
        raise EngineError(f"{path}: cannot be written ({reason(error)})") from error


def _typed(value: object, kind: type[T]) -> T | None:
    return value if type(value) is kind else None


def _read_toml(path: Path, required: bool) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_SIZE_MAX + 1)
    except FileNotFoundError:
        if required:
            raise EngineError(f"{path}: no such file, though {CONFIG_VARIABLE} names it") from None
        return {}
    except OSError as error:
        raise EngineError(f"{path}: the settings cannot be read ({reason(error)})") from error
    if len(data) > _SIZE_MAX:
        raise EngineError(f"{path}: larger than {_SIZE_MAX} bytes, so no settings file")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise EngineError(f"{path}: not valid TOML: {error}") from error


def _check_key(key: str, known: Iterable[str], where: str, what: str) -> None:
    """Raise EngineError for a key that is not known, with the nearest one that is."""
    names = list(known)
    if key not in names:
        nearest = difflib.get_close_matches(key, names, 1, 0)[0]
        raise EngineError(f"{where}unknown {what} {key!r}; did you mean {nearest!r}?")


def _value(knob: Knob, value: Any, where: str) -> Any:
    """Return a checked value of the option, from text or from a value that was parsed already."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise EngineError(f"{where}: {value!r} is not a value for {knob.flag}")
    parsed = knob.parse(text, where)
    # No shell has expanded a leading ~ in a file or a variable.
    return os.path.expanduser(parsed) if knob.kind == "path" and parsed else parsed  # noqa: PTH111
