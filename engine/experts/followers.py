"""Reads `.coli_pairs` (see `pairs`, which writes it) without a compiler. The file may come from anywhere."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import EngineError
from ..files import reason

FILE_MAX = 256 << 20
FOLLOWERS_MAX = 64
_HEAD = re.compile(rb"COLIPAIRS 1 [0-9]{1,9}\s*")
_LINE = re.compile(rb"([0-9]{1,4}) ([12]) ([0-9]{1,4})((?: [0-9]{1,4}:[0-9]{1,10})+)\s*")

Followers = dict[tuple[int, int], list[tuple[int, int]]]
"""(layer, expert) -> (expert of the next layer, times), the most frequent first."""


def read_followers(path: Path) -> Followers:
    """Return who follows whom one layer on; empty when the file does not exist. Malformed lines are skipped.

    Raises EngineError when it cannot be read or is no such file.
    """
    found: Followers = {}
    try:
        if path.stat().st_size > FILE_MAX:
            raise EngineError(f"{path}: larger than {FILE_MAX} bytes, so no .coli_pairs")
        with path.open("rb") as file:
            if not _HEAD.fullmatch(file.readline(64)):
                raise EngineError(f"{path}: does not begin like a .coli_pairs of version 1")
            for line in file:
                match = _LINE.fullmatch(line)
                if match and match[2] == b"1":
                    pairs = [pair.split(b":") for pair in match[4].split()[:FOLLOWERS_MAX]]
                    found[int(match[1]), int(match[3])] = [(int(e), int(n)) for e, n in pairs]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({reason(error)})") from error
    return found
