"""Keeps what the engine holds of a conversation in files, so that no conversation is ever read twice.

The engine holds one conversation at a time. When it is left, or the program ends, the engine's memory of it goes to
`state/<model key>/<conversation>.state`; when it is come back to, the engine takes it up from there. All files
together take so much space at most; those used least recently go first. They can be lost: then a conversation is read
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from colibri_tui.journal import Row
from colibri_tui.render.units import size
from engine.events import State
from engine.wire import Between, Forget, LoadState, SaveState

_HALF_WRITTEN_S = 3600.0
"""Seconds after which a half-written file is nobody's any more."""


class Link(Protocol):
    """What is needed of an engine link."""

    def between_turns(self, command: Between) -> bool:
        """Have something done as soon as no turn runs; say whether there is an engine for it."""


class Keeper:
    """One per application. All methods belong to the screen's thread and return at once.

    most: bytes that all files may take; 0 keeps none. tell: takes a line for the reader.
    """

    def __init__(self, link: Link, folder: Path, most: int, tell: Callable[[str], object]) -> None:
        self._link, self._folder, self._most, self._tell = link, folder, most, tell
        self._held: tuple[str, Row] | None = None  # model key and conversation that the engine holds
        self._changed = False  # since it was saved
        self._arriving = False  # whether it is being taken up
        self._wiped: set[Path] = set()
        self._failing = False
        self._files = ThreadPoolExecutor(1, "kept states")

    def began(self, key: str, conversation: Row) -> None:
        """The engine computes an answer in this conversation."""
        self._held, self._changed, self._arriving = (key, conversation), True, False

    def lost(self) -> None:
        """The engine holds nothing any more."""
        self._held = None

    def holds(self, key: str, conversation: Row | None) -> bool:
        """Whether the engine holds this conversation by now."""
        if self._held is None or conversation is None or self._arriving:
            return False
        model, row = self._held
        return model == key and (row is conversation or row.number == conversation.number is not None)

    def leave(self, *, restarts: bool = False) -> None:
        """Keep what the engine holds; if only the engine restarts, whatever space that takes for the moment."""
        if self._held is None or not self._changed or not (self._most or restarts):
            return
        path = self._path(*self._held)
        if path is not None:
            self._changed = not self._link.between_turns(SaveState(str(path), None if restarts else self._most))

    def take_up(self, key: str, conversation: Row) -> None:
        """Have the engine hold a conversation that was kept."""
        path = self._path(key, conversation)
        if path is None or (self._held is not None and path == self._path(*self._held)) or not path.exists():
            return
        if self._link.between_turns(LoadState(str(path))):
            self._held, self._changed, self._arriving = (key, conversation), False, True

    def forget(self, conversation: int) -> None:
        """Remove what is kept of a conversation with any model, and what the engine holds of it."""
        if self._held is not None and self._held[1].number == conversation:
            self._held = None
            self._link.between_turns(Forget())
        self._wiped.update(folder / f"{conversation}.state" for folder in _folders(self._folder))
        self._files.submit(_wipe, self._folder, conversation)

    def heard(self, state: State) -> None:
        """The engine has saved or loaded a state, or could not."""
        path = Path(state.path)
        self._arriving = self._arriving and state.done != "loaded"
        if state.error:
            if state.done == "loaded":
                self._held = None
            if state.done == "loaded" or not self._failing:
                self._tell(f"{state.error[0].upper()}{state.error[1:]}.")
            self._failing = self._failing or state.done == "saved"
            return
        if state.done == "saved":
            self._failing = False
            if path in self._wiped:
                self._files.submit(path.unlink, missing_ok=True)
            else:
                self._files.submit(_prune, self._folder, self._most, path)
            return
        self._tell(f"Context restored: {state.tokens:,} token{'s' * (state.tokens != 1)}, {size(state.nbytes)}.")
        self._files.submit(_used, path)
        self._files.submit(_prune, self._folder, self._most, None)

    def _path(self, key: str, conversation: Row) -> Path | None:
        """Where a conversation is kept; None while it has no number yet."""
        number = conversation.number
        return None if number is None else self._folder / key / f"{number}.state"


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    return []


def _wipe(folder: Path, conversation: int) -> None:
    for path in folder.glob(f"*/{conversation}.state*"):
        with suppress(OSError):
            path.unlink()


def _used(path: Path) -> None:
    with suppress(OSError):
        path.touch()


def _prune(folder: Path, most: int, spared: Path | None) -> None:
    """Remove the files used least recently until the others take `most` bytes at most, and what killed writers left."""
    found = []
    for path in folder.glob("*/*"):
        with suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, path, status.st_size))
    room, before = most, time.time() - _HALF_WRITTEN_S
    for used, path, nbytes in sorted(found, reverse=True):
        if path.suffix == ".new":
            doomed = used < before
        else:
            room -= nbytes
            doomed = room < 0 and path != spared
            room += nbytes if doomed else 0
        if doomed:
            with suppress(OSError):
                path.unlink()
