"""`.coli_pairs` while programs run: loaded once, added to after every turn, by several programs at a time.

The file follows the rules of the history beside which it lies (see `history`). A save that finds the file as this
program left it writes what is known with the new counts; one that finds another's begins with that, so that counts of
two programs add up and a reset stays one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import EngineError
from ..files import FileLock, copy_aside, move_aside, reason, replace_file
from .couplings import Couplings
from .followers import PairsReader, PairsRefused

NAME = ".coli_pairs"
"""Of the file beside a `.coli_usage`."""

_Identity = tuple[int, int, int]


class PairHistory:
    """The pairs of one model and profile.

    couplings: what is known now. notices: what a person should know about the loading, one line each.
    """

    def __init__(
        self, path: Path | None, layers: int, experts: int, routed: frozenset[int], *, learn: bool, seed: Path | None
    ) -> None:
        """Load the file, or begin anew; with `learn`, one that cannot be used is moved aside by the first save.

        path None: nothing is kept. learn False: nothing is written. seed: a file to begin with where there is none yet.
        """
        self._path = None if path is None else Path(os.path.realpath(path))
        self._routed, self._learn = routed, learn and path is not None
        self.couplings = Couplings(layers, experts)
        self.notices: tuple[str, ...] = ()
        self._seen: _Identity | str | None = None
        if self._path is None:
            return
        try:
            self._seen = _identity(self._path)
            source = seed if self._seen is None and seed is not None else self._path
            self.notices = self._take(source)
            if self.notices and source == self._path:
                self._seen = "incomplete"
        except PairsRefused as refusal:
            self.notices = (f"{refusal}; no pairs are known",)
            self._seen = self._seen and "refused"
        except EngineError as error:
            self.notices = (f"{error}; no pairs are known, none will be learned",)
            self._learn = False

    def save(self, count: Callable[[Couplings], None]) -> tuple[str, ...]:
        """Let `count` add what is new, and keep it. Returns notices.

        Raises EngineError when the file could not be written: it is as it was, and what is new is to be counted again
        by the next save.
        """
        if self._path is None or not self._learn:
            count(self.couplings)
            return ()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock(self._path):
                notices = self._follow(self._path)
                count(self.couplings)
                replace_file(self._path, self.couplings.format(), self._path.with_name(f"{self._path.name}.new"))
                self._seen = _identity(self._path)
        except OSError as error:
            self._seen = "unsaved"
            raise EngineError(
                f"{self._path}: the pairs were not saved ({reason(error)}); the next save will add them"
            ) from error
        return notices

    def add(self, file: Path) -> tuple[int, tuple[str, ...]]:
        """Add what another file says. Returns how many lines that was, and notices. Raises EngineError."""
        if not file.is_file():
            raise EngineError(f"{file}: no such file; expected {NAME}")
        reader, other = PairsReader(file), Couplings(self.couplings.layers, self.couplings.experts)
        left_out = other.take(reader, self._routed)
        told = self._complaints(reader, left_out)
        notices = self.save(lambda couplings: couplings.add(other))
        return reader.lines, (*told, *notices)

    def _lock(self, path: Path) -> FileLock:
        return FileLock(path.with_name(f"{path.name}.lock"))

    def _follow(self, path: Path) -> tuple[str, ...]:
        """Go by the file, under the lock, if it is not as this program left it."""
        if _identity(path) == self._seen:
            return ()
        self.couplings = Couplings(self.couplings.layers, self.couplings.experts)
        try:
            notices = self._take(path)
        except PairsRefused as refusal:
            return (f"{refusal}; kept as {move_aside(path, 'refused').name}, new pairs begin",)
        if notices:
            kept = copy_aside(path, "refused")
            return (f"{path}: not all of it was understood; as it was, it is kept as {kept.name}",)
        return ()

    def _take(self, path: Path) -> tuple[str, ...]:
        reader = PairsReader(path)
        left_out = self.couplings.take(reader, self._routed)
        return self._complaints(reader, left_out)

    def _complaints(self, reader: PairsReader, left_out: int) -> tuple[str, ...]:
        told = reader.complaints
        if left_out:
            told.append(f"ignored {left_out} follower(s) of layers or experts not in this model")
        return tuple(f"{reader.path}: {text}" for text in told)


def _identity(path: Path) -> _Identity | None:
    """What changes when a file is replaced; None if there is none. Raises EngineError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({reason(error)})") from error
    return status.st_mtime_ns, status.st_size, status.st_ino
