"""Several files at once, with one progress; and shards that come one after another and go when they were used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from engine.convert.run import Supply
from engine.errors import EngineError
from engine.files import reason

from .listing import Listing, RemoteFile
from .transfer import Patience, StoppedError, get, have

AT_ONCE: Final = 4
HELD: Final = 3
"""Shards that lie on disk or are on their way while a model is converted as it comes."""

_LOOK_S: Final = 0.1

Progress = Callable[[str, int, int], None]


class Downloads:
    """Files of a repository on their way into a folder.

    window: how many may be there or under way before some are released; None: all. `progress`, called by whoever waits,
    is told of bytes. Close it in the end; threads then stop at their next byte.
    """

    def __init__(
        self,
        listing: Listing,
        files: Sequence[RemoteFile],
        folder: Path,
        progress: Progress,
        *,
        window: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._listing, self._folder, self._progress = listing, folder, progress
        self._patience = patience or Patience()
        self._window = window or len(files)
        self._order = list(files)
        self._total = sum(file.nbytes for file in files)
        self._done = sum(have(folder, file) for file in files)
        self._pending, self._held = list(files), 0
        self._needed: set[str] = set()
        self._here: set[str] = set()
        self._error: Exception | None = None
        self._stop = False
        self._turn = threading.Condition()
        workers = min(AT_ONCE, self._window, len(files))
        for number in range(workers):
            threading.Thread(target=self._serve, name=f"download-{number}", daemon=True).start()

    def wait(self, names: Sequence[str] | None = None) -> None:
        """Return when these files (all: None) are here. Raises what kept one of them from coming."""
        wanted = {file.local for file in self._order} if names is None else set(names)
        with self._turn:
            self._needed |= wanted
            self._turn.notify_all()
        while True:
            with self._turn:
                if self._error is not None:
                    raise self._error
                complete = wanted <= self._here
                if not complete:
                    self._turn.wait(_LOOK_S)
                done = self._done
            self._progress("downloading", min(done, self._total), self._total)
            if complete:
                return

    def release(self, names: Sequence[str]) -> None:
        """Remove files that nobody needs any more."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
        with self._turn:
            self._held -= len(names)
            self._turn.notify_all()

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to come."""
        with self._turn:
            return len(self._here) == len(self._order)

    @property
    def done(self) -> tuple[int, int]:
        """Bytes that have come, of how many."""
        with self._turn:
            return min(self._done, self._total), self._total

    def close(self) -> None:
        """Stop."""
        with self._turn:
            self._stop = True
            self._turn.notify_all()

    def _next(self) -> RemoteFile | None:
        with self._turn:
            while not self._stop and self._pending:
                first = self._pending[0]
                if self._held < self._window or first.local in self._needed:
                    self._held += 1
                    return self._pending.pop(0)
                self._turn.wait()
            return None

    def _told(self, nbytes: int) -> None:
        with self._turn:
            if self._stop:
                raise StoppedError
            self._done += nbytes

    def _serve(self) -> None:
        try:
            while (file := self._next()) is not None:
                get(self._listing, file, self._folder, self._told, self._patience)
                with self._turn:
                    self._here.add(file.local)
                    self._turn.notify_all()
        except StoppedError:
            return
        except EngineError as error:
            self._fail(error)
        except OSError as error:
            self._fail(EngineError(f"{self._folder}: cannot be written ({reason(error)}); what has come is kept"))

    def _fail(self, error: Exception) -> None:
        with self._turn:
            self._error = self._error or error
            self._stop = True
            self._turn.notify_all()


class Shards(Supply):
    """Brings the shards of a model while it is converted, and removes those that were used."""

    def __init__(self, listing: Listing, folder: Path, progress: Progress, patience: Patience | None = None) -> None:
        self._listing, self._folder, self._progress, self._patience = listing, folder, progress, patience
        self._by_name = {file.local: file for file in listing.files.values()}
        self._downloads: Downloads | None = None

    def room(self, files: Sequence[Path]) -> int:
        """Bytes of disk that shards take at most at a time, as far as they are not here."""
        sizes = sorted((self._by_name[path.name].nbytes for path in files), reverse=True)
        here = sum(have(self._folder, self._by_name[path.name]) for path in files)
        return max(0, sum(sizes[:HELD]) - here)

    def start(self, files: Sequence[Path]) -> None:
        """Begin."""
        wanted = [self._by_name[path.name] for path in files]
        for path in self._folder.iterdir():  # of an earlier attempt, and not needed any more
            if path.name.removesuffix(".part") not in {file.local for file in wanted}:
                path.unlink()
        if wanted:
            self._downloads = Downloads(
                self._listing, wanted, self._folder, self._progress, window=HELD, patience=self._patience
            )

    def wait(self, files: Sequence[Path]) -> None:
        """Return when they are here."""
        assert self._downloads is not None
        self._downloads.wait([path.name for path in files])

    def release(self, files: Sequence[Path]) -> None:
        """Remove them."""
        assert self._downloads is not None
        self._downloads.release([path.name for path in files])

    def converting(self, stage: str, done: int, total: int) -> None:
        """Tell of the conversion: while shards come, their progress is the one that counts."""
        if self._downloads is None or self._downloads.complete:
            self._progress(stage, done, total)
        else:
            self._progress("downloading", *self._downloads.done)

    def close(self) -> None:
        """Stop downloading."""
        if self._downloads is not None:
            self._downloads.close()
