"""How fast this machine's memory and disk are: measured once, and remembered for a month."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from engine.disk import read_speed, scratch_file
from engine.expectations import Machine
from engine.files import replace_file
from engine.processor import memory_rate

from . import paths

SPEEDS: Final = "speeds.json"
"""In the cache folder: this machine's speeds as last measured."""

_FRESH_S: Final = 30 * 86400


def machine_speed(
    files: Sequence[Path], expert_bytes: int, tell: Callable[[str, int, int], None], *, fresh: bool = True
) -> Machine:
    """This machine's speeds: measured, or (`fresh` false) as measured in the last month. Raises ReadError."""
    known = None if fresh else _known_speed()
    if known is not None:
        return known
    tell("measuring the disk", 0, 0)
    if files:
        disk = read_speed(files, expert_bytes)
    else:
        paths.models_dir().mkdir(parents=True, exist_ok=True)
        with scratch_file(paths.models_dir()) as file:
            disk = read_speed([file], min(expert_bytes, 16 << 20))
    tell("measuring memory", 0, 0)
    found = Machine(memory_rate(), disk.rate, disk.direct)
    _remember(found)
    return found


def _known_speed() -> Machine | None:
    try:
        said = json.loads((paths.cache_dir() / SPEEDS).read_bytes())
        if not 0 <= time.time() - said.pop("at") < _FRESH_S:
            return None
        found = Machine(float(said["memory"]), float(said["disk"]), bool(said["direct"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return found if found.memory > 0 and found.disk > 0 else None


def _remember(machine: Machine) -> None:
    path = paths.cache_dir() / SPEEDS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({**asdict(machine), "at": time.time()}).encode(), path.with_suffix(".new"))
    except OSError:  # measured again next time
        return
