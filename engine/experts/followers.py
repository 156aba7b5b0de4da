"""Reads `.coli_pairs` (see `pairs`, which writes it) without a compiler. The file may come from anywhere."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..errors import EngineError
from ..files import reason, skip_line

FILE_MAX = 64 << 20
LINE_MAX = 4096
LINES_MAX = 1 << 18
"""Twice the layers times the experts; Kimi-K2, the largest of its kind, needs 47 thousand."""
FOLLOWERS_MAX = 64
"""colibrì writes 16 at most."""
MARK = b"COLIPAIRS "
"""How every such file begins."""
_HEAD = re.compile(MARK + rb"([0-9]{1,9}) ([0-9]{1,9})\s*")
_LINE = re.compile(rb"([0-9]{1,4}) ([12]) ([0-9]{1,4})((?: [0-9]{1,4}:[0-9]{1,10})+)\s*")

Followers = dict[tuple[int, int], list[tuple[int, int]]]
"""(layer, expert) -> (expert of the next layer, times), the most frequent first."""


class PairsRefused(EngineError):
    """A file that is no `.coli_pairs`, or of a later version; the message says what is wrong."""


class PairLine(NamedTuple):
    """When `expert` fires in a layer, each follower fires so many times in the layer `distance` (1 or 2) further on."""

    layer: int
    distance: int
    expert: int
    followers: list[tuple[int, int]]


class PairsReader:
    """One pass over a file: iterate over it for its lines.

    malformed: lines that were none, so far. announced, lines: how many the header promises; how many there were.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.announced = self.lines = self.malformed = 0

    def __iter__(self) -> Iterator[PairLine]:
        """Read on; a file that is empty or does not exist has none.

        Raises PairsRefused, and EngineError when it cannot be read.
        """
        try:
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise PairsRefused(f"{self.path}: not a regular file, so no .coli_pairs")
            if status.st_size > FILE_MAX:
                raise PairsRefused(f"{self.path}: {status.st_size} bytes, no .coli_pairs is larger than {FILE_MAX}")
            if status.st_size:
                with self.path.open("rb") as file:
                    self._begin(file)
                    yield from self._read(file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise EngineError(f"{self.path}: cannot be read ({reason(error)})") from error

    @property
    def complaints(self) -> list[str]:
        """What was wrong with lines, without the file's name; after the pass."""
        told = [f"skipped {self.malformed} malformed line(s)"] if self.malformed else []
        if self.lines + self.malformed != self.announced:
            told.append(f"its head announces {self.announced} lines, it has {self.lines + self.malformed}")
        return told

    def _begin(self, file: BinaryIO) -> None:
        head = _HEAD.fullmatch(file.readline(64))
        if not head:
            raise PairsRefused(f"{self.path}: does not begin like a .coli_pairs (COLIPAIRS 1 <lines>)")
        if int(head[1]) != 1:
            raise PairsRefused(f"{self.path}: .coli_pairs of version {int(head[1])}, only version 1 is known")
        self.announced = int(head[2])

    def _read(self, file: BinaryIO) -> Iterator[PairLine]:
        while line := file.readline(LINE_MAX):
            match = _LINE.fullmatch(line)
            if len(line) == LINE_MAX and not line.endswith(b"\n"):
                match = None
                skip_line(file)
            if match:
                self.lines += 1
                pairs = [pair.split(b":") for pair in match[4].split()[:FOLLOWERS_MAX]]
                yield PairLine(int(match[1]), int(match[2]), int(match[3]), [(int(e), int(n)) for e, n in pairs])
            else:
                self.malformed += bool(line.strip())
            if self.lines + self.malformed > LINES_MAX:
                raise PairsRefused(f"{self.path}: no .coli_pairs has more than {LINES_MAX:,} lines")


def read_followers(path: Path) -> Followers:
    """Return who follows whom one layer on; empty when the file does not exist. Malformed lines are skipped.

    Raises EngineError when it cannot be read or is no such file.
    """
    return {(line.layer, line.expert): line.followers for line in PairsReader(path) if line.distance == 1}
