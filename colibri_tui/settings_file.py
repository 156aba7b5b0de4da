"""Changing one key of the settings file. Everything else in it, comments too, stays as a person wrote it."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.files import FileLock, reason, replace_file

_HEAD = re.compile(r"\s*\[([A-Za-z]+)\]\s*(#.*)?")
_COMMENT = re.compile(r"""(?:[^#"']|"[^"]*"|'[^']*')*?(\s*#.*)""")


def written(path: Path) -> object:
    """Return something that changes whenever the file comes, goes or is written."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def change_setting(path: Path, table: str, key: str, value: Any) -> None:
    """Set a key of a table, or take it out when the value is None. The file is made if there is none.

    Raises EngineError when the file cannot be read or written, or is written in a way that this cannot change.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
            changed = changed_text(text, table, key, value)
            if _parsed(changed) != _wanted(_parsed(text), table, key, value):
                raise EngineError(
                    f"{path}: [{table}] {key} is written in a way that only you can change; edit the file"
                )
            replace_file(path, changed.encode(), path.with_name(f"{path.name}.new"))
    except OSError as error:
        raise EngineError(f"{path}: cannot be written ({reason(error)})") from error
    except ValueError as error:
        raise EngineError(f"{path}: not valid TOML: {error}") from error


def changed_text(text: str, table: str, key: str, value: Any) -> str:
    """Return the text of a settings file with a key set, or taken out when the value is None."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if _table(line) == table), None)
    if start is None:
        if value is None:
            return text
        gap = [""] if lines and lines[-1].strip() else []
        lines += [*gap, f"[{table}]", f"{key} = {toml(value)}"]
        return "\n".join(lines) + "\n"
    stop = next((n for n in range(start + 1, len(lines)) if _table(lines[n]) is not None), len(lines))
    assignment = re.compile(rf"\s*(?:{key}|\"{key}\"|'{key}')\s*=")
    found = next((n for n in range(start + 1, stop) if assignment.match(lines[n])), None)
    if found is not None:
        comment = _COMMENT.fullmatch(lines[found])
        line = f"{key} = {toml(value)}{comment[1] if comment else ''}"
        lines[found : found + 1] = [] if value is None else [line]
    elif value is not None:
        while stop > start + 1 and not lines[stop - 1].strip():
            stop -= 1
        lines.insert(stop, f"{key} = {toml(value)}")
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    """Return a text, number or truth value as TOML writes it."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(line: str) -> str | None:
    """Return the table that a line begins; '' for one that is not ours, None if it begins none."""
    match = _HEAD.fullmatch(line)
    if match:
        return match[1]
    return "" if line.lstrip().startswith("[") else None


def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _wanted(before: dict[str, Any], table: str, key: str, value: Any) -> dict[str, Any]:
    held = before.get(table, {})
    inside = {name: kept for name, kept in (held if isinstance(held, Mapping) else {}).items() if name != key}
    if value is not None:
        inside[key] = value
    return {**before, table: inside} if table in before or value is not None else before
