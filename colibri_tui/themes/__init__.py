"""Colour themes: one TOML file each, ours beside this module, the user's in their configuration folder.

A file names a Textual theme's colours and variables and, in [atlas], the heat ramp and the tier colours that
Textual knows nothing about. A user's file may replace one of ours by using its name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from colibri_tui.render.ramps import Ink, Palette
from colibri_tui.render.shades import HEAT_LEVELS, Place

DEFAULT_THEME = "colibri"
LIGHT_THEME = "colibri-light"
"""Whose palette light themes get that have none of their own."""
PLAIN_THEME = "ansi16"
"""Used where the terminal has sixteen colours or none."""

MAX_BYTES = 64 * 1024
_COLOURS = (
    "primary", "secondary", "accent", "foreground", "background", "surface", "panel", "boost", "success",
    "warning", "error",
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_INKS = {"heat": HEAT_LEVELS, "fired": HEAT_LEVELS - 1, "places": len(Place) - 1, "fired-places": len(Place) - 1}
"""Lists of the [atlas] table, and how many colours each has."""


class ThemeError(ValueError):
    """A theme file that cannot be used; `str(error)` is one line without the file's name."""


@dataclass(frozen=True, slots=True)
class ColourTheme:
    """A Textual theme, and the colours of atlas and bars that go with it. ANSI themes need no palette."""

    theme: Theme
    palette: Palette


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ThemeError(f"[{key}] must be a table")
    return value


def _colour(value: object, where: str) -> str:
    if isinstance(value, str):
        try:
            Color.parse(value)
        except ColorParseError:
            pass
        else:
            return value
    raise ThemeError(f"{where} is not a colour")


def _ink(value: object, where: str) -> Ink:
    match value:
        case [str(rgb), int(index)] if 0 <= index <= 255 and re.fullmatch("#[0-9a-fA-F]{6}", rgb):
            return Ink(rgb, index)
    raise ThemeError(f'{where} must be ["#rrggbb", 0..255]')


def _palette(table: Mapping[str, Any]) -> Palette:
    lists = {}
    for key, count in _INKS.items():
        inks = table.get(key)
        if not isinstance(inks, list) or len(inks) != count:
            raise ThemeError(f"atlas.{key} must list {count} colours")
        lists[key.replace("-", "_")] = tuple(_ink(ink, f"atlas.{key}[{n}]") for n, ink in enumerate(inks))
    return Palette(**lists)


def parse_theme(text: str, fallback: Mapping[bool, Palette] | None = None) -> ColourTheme:
    """Read one theme file's text; ThemeError says what is wrong with it.

    fallback: the palettes of a dark and of a light theme without an [atlas] table.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ThemeError(f"not TOML: {error}") from None
    name = data.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ThemeError("name must be lower-case letters, digits and dashes")
    colours = _table(data, "colors")
    if "primary" not in colours:
        raise ThemeError("[colors] lacks primary")
    for key in colours:
        if key not in _COLOURS:
            raise ThemeError(f"unknown colour {key!r} in [colors]")
    checked: dict[str, Any] = {key: _colour(value, f"colors.{key}") for key, value in colours.items()}
    variables = _table(data, "variables")
    for key, value in variables.items():
        if not isinstance(value, str):
            raise ThemeError(f"variables.{key} must be a string")
    ansi, dark = data.get("ansi", False), data.get("dark", True)
    if not isinstance(ansi, bool) or not isinstance(dark, bool):
        raise ThemeError("ansi and dark must be true or false")
    if "atlas" in data:
        palette = _palette(_table(data, "atlas"))
    elif fallback is not None:
        palette = fallback[dark]
    else:
        raise ThemeError("[atlas] is missing")
    theme = Theme(name=name, dark=dark, ansi=ansi, variables=dict(variables), **checked)
    return ColourTheme(theme, palette)


def builtin_themes() -> dict[str, ColourTheme]:
    """Return our own themes by name, the default first."""
    folder = Path(__file__).parent
    first = parse_theme((folder / f"{DEFAULT_THEME}.toml").read_text(encoding="utf-8"))
    themes = {DEFAULT_THEME: first}
    for path in sorted(folder.glob("*.toml")):
        if path.stem != DEFAULT_THEME:
            theme = parse_theme(path.read_text(encoding="utf-8"), {True: first.palette, False: first.palette})
            themes[theme.theme.name] = theme
    return themes


def palette_for(themes: Mapping[str, ColourTheme], *, dark: bool) -> Palette:
    """Return the palette of a theme that has none of its own."""
    return themes[DEFAULT_THEME if dark else LIGHT_THEME].palette


def stamp(folder: Path) -> object:
    """Return something that changes whenever a theme file in a folder comes, goes or is written."""
    try:
        files = sorted(folder.glob("*.toml"))
        return tuple((file.name, status.st_mtime_ns, status.st_size) for file in files if (status := file.stat()))
    except OSError:  # between looking and asking a file may go
        return None


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise ThemeError(f"larger than {MAX_BYTES // 1024} KiB")
    return path.read_text(encoding="utf-8")


def load_themes(folder: Path | None) -> tuple[dict[str, ColourTheme], list[str]]:
    """Return our themes and those of the user's folder by name, and one line per file that was left out."""
    themes, problems = builtin_themes(), []
    fallback = {dark: palette_for(themes, dark=dark) for dark in (True, False)}
    for path in sorted(folder.glob("*.toml")) if folder is not None else []:
        try:
            theme = parse_theme(_read(path), fallback)
        except (ThemeError, OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"theme {path.name}: {reason}; the file is left out")
        else:
            themes[theme.theme.name] = theme
    return themes, problems
