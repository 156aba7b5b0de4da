"""The learning curve: one line for every turn, beside the history that it went into.

    {"at": 1764500000, "prompt": 31, "tokens": 200, "hits": [0, 1840, 1360], "prefill_hits": [0, 12, 300], ...}

A line is appended with one write, so a killed program leaves at most its last line unfinished, which readers skip. The
file is cut to its newer half when it has grown past SIZE_MAX; until then no line is ever rewritten.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .errors import EngineError
from .events import Hits
from .files import FileLock, reason, replace_file

NAME = "turns.jsonl"
SIZE_MAX = 2 << 20
"""Bytes: about 7,000 turns."""

_NUMBER_MAX = 1 << 53


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A turn.

    at: when it ended, seconds since 1970. prompt: tokens read; tokens: written. hits, prefill_hits: pin, cache, disk.
    bytes_read: all; decode_bytes: of the reply. tok_s: of the reply, 0 if it was too short to tell. cap: cache slots a
    layer; pinned: experts pinned; memory: bytes of the plan. A turn is comparable to another one with the same three.
    """

    at: float
    prompt: int
    tokens: int
    hits: Hits
    prefill_hits: Hits
    bytes_read: int
    decode_bytes: int
    tok_s: float
    cap: int
    pinned: int
    memory: int

    @property
    def hit_rate(self) -> float | None:
        """Share of the reply's look-ups that needed no read, 0..1."""
        return self.hits.rate if self.hits.total else None

    @property
    def bytes_a_token(self) -> float | None:
        """Bytes read for each token of the reply after the first."""
        return self.decode_bytes / (self.tokens - 1) if self.tokens > 1 else None


def log_path(history: Path) -> Path:
    """Where the turns that went into a history are logged."""
    return history.with_name(NAME)


def append_turn(path: Path, turn: LoggedTurn) -> None:
    """Add a turn to the log. Raises EngineError when it cannot be written."""
    line = {**asdict(turn), "hits": _list(turn.hits), "prefill_hits": _list(turn.prefill_hits)}
    data = json.dumps(line).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")), path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                data = data if file.read(1) == b"\n" else b"\n" + data
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if size + len(data) > SIZE_MAX:
                _halve(path)
    except OSError as error:
        raise EngineError(f"{path}: the turn was not logged ({reason(error)})") from error


def read_turns(path: Path, last: int | None = None) -> list[LoggedTurn]:
    """Read the turns, or the last so many, oldest first; lines that are none are skipped.

    Raises EngineError when the file cannot be read; one that does not exist holds none.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 2 * SIZE_MAX))
            lines = file.read(2 * SIZE_MAX).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EngineError(f"{path}: the log of turns cannot be read ({reason(error)})") from error
    turns = [turn for line in lines if (turn := _parse(line)) is not None]
    return turns if last is None else turns[max(0, len(turns) - last) :]


def _halve(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    kept = b"".join(lines[len(lines) // 2 :])[-SIZE_MAX // 2 :]
    replace_file(path, kept, path.with_name(f"{path.name}.new"))


def _list(hits: Hits) -> list[int]:
    return [hits.pin, hits.cache, hits.disk]


def _parse(line: bytes) -> LoggedTurn | None:
    try:
        values: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    found: dict[str, Any] = {}
    for field in fields(LoggedTurn):
        value = values.get(field.name)
        if field.name in ("hits", "prefill_hits"):
            if not isinstance(value, list) or len(value) != 3 or not all(map(_is_count, value)):
                return None
            found[field.name] = Hits(*value)
        elif field.name in ("at", "tok_s"):
            if not isinstance(value, int | float) or not 0 <= value < _NUMBER_MAX:
                return None
            found[field.name] = float(value)
        elif not _is_count(value):
            return None
        else:
            found[field.name] = value
    return LoggedTurn(**found)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _NUMBER_MAX
