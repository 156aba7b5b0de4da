"""What the composer offers to complete: slash commands, what follows them, and files behind an `@`.

Commands are looked up at once. Files are on a disk that may be slow: `wanted_path` says what is looked for,
`list_paths` looks, in another thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from colibri_tui.actions import COMMANDS, Command

PATHS_MAX: Final = 200
"""Suggestions from one folder; who wants another file types on."""
_ENTRIES_MAX: Final = 5_000
"""Entries of a folder that are looked at."""
_PATH = re.compile(r'(?:(?<=\s)|^)@("?)([^\s"]*)$')
_QUOTED_PATH = re.compile(r'(?:(?<=\s)|^)@"([^"]*)$')


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One way to go on. text: what takes the place of the line from `start` to the cursor.

    final: a command that is complete with it and can be sent.
    """

    start: int
    text: str
    label: str
    help: str = ""
    final: bool = False


Arguments = Callable[[Command], Sequence[str]]
"""What may follow a command, as far as that can be listed."""


def no_arguments(_command: Command) -> Sequence[str]:
    """List nothing."""
    return ()


def suggest(line: str, arguments: Arguments = no_arguments) -> list[Suggestion]:
    """Return what a message of one line, up to the cursor, may become: commands that fit, the best first."""
    if not line.startswith("/"):
        return []
    name, space, rest = line.partition(" ")
    if space:
        return _argument(name, rest, arguments)
    near = [(c, slash) for c in COMMANDS for slash in c.slash[:1] if _fits(line[1:], slash[1:], c)]
    near.sort(key=lambda pair: (pair[1] != line, not pair[1].startswith(line)))
    return [
        Suggestion(0, f"{slash} " if c.argument else slash, c.usage, c.help, final=not c.required) for c, slash in near
    ]


def _fits(typed: str, name: str, command: Command) -> bool:
    """Whether the letters begin the name, stand in it, or begin a word of the title."""
    return typed in name or any(word.startswith(typed) for word in command.title.lower().split())


def _argument(name: str, rest: str, arguments: Arguments) -> list[Suggestion]:
    command = next((c for c in COMMANDS if name in c.slash), None)
    if command is None:
        return []
    typed = rest.lower()
    words = [*command.choices, *arguments(command)]
    return [Suggestion(len(name) + 1, word, word, final=True) for word in words if word.lower().startswith(typed)]


def wanted_path(line: str) -> str | None:
    """Return the part of a path that is being typed behind an `@` at the end of the line; None if there is none."""
    match = _QUOTED_PATH.search(line) or _PATH.search(line)
    return match.groups()[-1] if match else None


def list_paths(partial: str, line: str) -> list[Suggestion]:
    """Return the files and folders whose path begins with `partial`, folders first; none if it cannot be read.

    Hidden ones only when a dot was typed.
    """
    folder, _, beginning = partial.rpartition("/")
    found = []
    try:
        base = Path(f"{folder}/" if folder or partial.startswith("/") else ".").expanduser()
        with os.scandir(base) as entries:
            for count, entry in enumerate(entries):
                if count >= _ENTRIES_MAX:
                    break
                name = entry.name
                hidden = name.startswith(".") and not beginning.startswith(".")
                if hidden or not name.lower().startswith(beginning.lower()) or not name.isprintable():
                    continue
                found.append((not entry.is_dir(), name))
    except (OSError, RuntimeError, ValueError):
        return []
    prefix = partial[: len(partial) - len(beginning)]
    start = line.rindex("@")
    return [_path(start, prefix + name, is_file) for is_file, name in sorted(found)[:PATHS_MAX] if '"' not in name]


def _path(start: int, path: str, is_file: bool) -> Suggestion:
    """Return the suggestion of a path; one with spaces is quoted, and a folder's quotes stay open."""
    label = path if is_file else f"{path}/"
    if " " in path:
        return Suggestion(start, f'@"{label}" ' if is_file else f'@"{label}', label)
    return Suggestion(start, f"@{label} " if is_file else f"@{label}", label)
