"""What the lab shows, read from files: turns by the day, and the matrix of profiles and workloads. Knows no screen."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.files import reason, replace_file
from engine.turn_log import LoggedTurn

MATRIX_NAME = "ab.json"
"""Where `colibri-tui ab` leaves its matrix, beside the profile's history."""
_SIZE_MAX = 4 << 20
_SIDE_MAX = 64


@dataclass(frozen=True, slots=True)
class Day:
    """The turns of one day, local time. rate: share of the replies' look-ups without a read; None without any.

    tok_s: mean of the replies that were long enough to tell, None without any. number: days since the first one.
    """

    number: int
    name: str
    turns: int
    tokens: int
    rate: float | None
    tok_s: float | None


def by_day(turns: Sequence[LoggedTurn]) -> list[Day]:
    """Return the days on which there were turns, in order."""
    groups: dict[tuple[int, int], list[LoggedTurn]] = {}
    for turn in turns:
        when = time.localtime(turn.at)
        groups.setdefault((when.tm_year, when.tm_yday), []).append(turn)
    days, first = [], 0
    for members in sorted(groups.values(), key=lambda members: members[0].at):
        ordinal = int((members[0].at - time.timezone) // 86400)
        first = first or ordinal
        found = sum(turn.hits.pin + turn.hits.cache for turn in members)
        total = sum(turn.hits.total for turn in members)
        timed = [turn for turn in members if turn.tok_s > 0]
        tokens = sum(turn.tokens for turn in timed)
        spent = sum(turn.tokens / turn.tok_s for turn in timed)
        days.append(
            Day(
                ordinal - first,
                time.strftime("%Y-%m-%d", time.localtime(members[0].at)),
                len(members),
                sum(turn.tokens for turn in members),
                found / total if total else None,
                tokens / spent if spent else None,
            )
        )
    return days


@dataclass(frozen=True, slots=True)
class Learned:
    """A row of the matrix. rates: by workload, the hit rate without pins and with them, 0..1."""

    name: str
    pins: int
    verdict: str
    reason: str
    rates: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Matrix:
    """cold: by workload, the hit rate of an empty cache without a history. cap: slots a layer without pins."""

    policy: str
    cap: int
    cold: dict[str, float]
    rows: tuple[Learned, ...]


def write_matrix(path: Path, found: dict[str, Any]) -> None:
    """Keep what `ab` found. Raises EngineError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(found).encode(), path.with_name(f"{path.name}.new"))
    except OSError as error:
        raise EngineError(f"{path}: the matrix was not kept ({reason(error)})") from error


def read_matrix(path: Path) -> Matrix | None:
    """Return the kept matrix, None if there is none. Raises EngineError when the file is not understood."""
    try:
        with path.open("rb") as file:
            data = file.read(_SIZE_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({reason(error)})") from error
    try:
        return _matrix(json.loads(data if len(data) <= _SIZE_MAX else b""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise EngineError(f"{path}: this is no matrix of colibri-tui ab; run it again") from error


def _matrix(found: Any) -> Matrix:
    cold = {str(work): _share(figures["rate"]) for work, figures in list(found["cold"].items())[:_SIDE_MAX]}
    rows = []
    for profile in found["profiles"][:_SIDE_MAX]:
        cells = {
            str(cell["workload"]): (_share(cell["off"]["rate"]), _share(cell["pinned"]["rate"]))
            for cell in profile["cells"][:_SIDE_MAX]
        }
        words = (str(profile["name"]), int(profile["pins"]), str(profile["verdict"]), str(profile["reason"]))
        rows.append(Learned(*words, cells))
    return Matrix(str(found["policy"]), int(found["cap"]), cold, tuple(rows))


def _share(value: Any) -> float:
    share = float(value)
    if not math.isfinite(share) or not 0 <= share <= 1:
        raise ValueError(f"{value!r} is no share")
    return share
