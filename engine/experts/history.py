"""A history while programs run: loaded once, added to after every turn, by several programs at a time.

Saving adds what was counted since the last save to what the file holds *now*, under a lock, so that two running
programs never lose each other's counts. A file that was not understood whole is kept aside before it is written over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Set
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from ..files import FileLock, copy_aside, move_aside, reason, replace_file
from .usage import COUNT_MAX, Counts, HistoryModel, Usage, UsageReader, UsageRefused, format_usage, read_usage

Sums = npt.NDArray[np.uint64]


class UsageHistory:
    """The history of one model and profile while an engine runs: loaded once, saved after every turn.

    counts: uint32 [layers, experts], as loaded; the live counters start from a copy of it.
    total: the sum of `counts`.
    notices: what a person should know about the loading, one line each.
    """

    def __init__(self, path: Path, model: HistoryModel, named: bool, learn: bool, decay: float | None) -> None:
        """Load a history; see `UsageHistory.open`."""
        # A link is followed, not replaced: the file it leads to may be kept elsewhere on purpose.
        self.path = Path(os.path.realpath(path))
        self._model, self._named, self._learn, self._decay = model, named, learn, decay
        self._lock = FileLock(self.path.with_name(self.path.name + ".lock"))
        self._temporary = self.path.with_name(self.path.name + ".new")
        usage, self.notices = self._load()
        self.counts: Counts = usage.counts[: model.layers].copy()
        self.total = int(self.counts.sum(dtype=np.uint64))
        self._baseline = self.counts.copy()

    @classmethod
    def open(
        cls,
        path: Path,
        layers: int,
        experts: int,
        model_type: str,
        routed: Set[int],
        *,
        named: bool = False,
        learn: bool = True,
        decay: float | None = None,
    ) -> UsageHistory:
        """Load the history at `path`, or start an empty one.

        layers, experts: num_hidden_layers and experts per layer; routed: the layers that have a router.
        named: a person named this file, so another engine's history may be used.
        learn: False freezes the file: `save` does nothing and nothing is moved.
        decay: what a save that adds something multiplies every count by, rounding half up; None forgets nothing.
        A history that is refused is moved aside and an empty one begins; one that cannot be read or moved is
        left alone and nothing is learned. `notices` tells. Raises EngineError only for a decay outside 0..1.
        """
        if decay is not None and not 0 < decay <= 1:
            raise EngineError(f"a history cannot decay by {decay:g}: the factor lies above 0 and up to 1")
        # The MTP row is kept for colibrì even though this engine adds nothing to it.
        model = HistoryModel(layers, experts, model_type, frozenset(routed) | {layers})
        return cls(path, model, named, learn, decay)

    def save(self, current: Counts) -> tuple[str, ...]:
        """Add what was counted since the last save to the file; `current` is uint32 [layers, experts].

        Without anything to add the file is left as it is. A cell that fell below its last value (a reset) adds
        nothing and is counted from there on. Returns notices. Raises EngineError when the file could not be
        written: it is as it was, and the next save adds what this one could not.
        """
        if not self._learn:
            return ()
        now = np.array(current, np.uint32)
        added = np.where(now > self._baseline, now - self._baseline, 0)
        if not added.any() and self.path.exists():
            self._baseline = now
            return ()

        def change(counts: Sums) -> Sums:
            counts[: self._model.layers] += added
            counts = np.minimum(counts, COUNT_MAX)
            return counts if self._decay is None else faded(counts, self._decay)

        try:
            notices = self._change(change)
        except OSError as error:
            raise EngineError(
                f"{self.path}: the history was not saved ({reason(error)}); the next save will add it"
            ) from error
        self._baseline = now
        return notices

    def change(self, change: Callable[[Sums], Sums]) -> tuple[str, ...]:
        """Replace what the file holds now, uint64 [layers + 1, experts], by what `change` makes of it.

        Other programs' counts are kept: they add to the outcome. Returns notices. Raises EngineError when the file
        could not be written, and is as it was then.
        """
        try:
            return self._change(lambda counts: np.minimum(change(counts), COUNT_MAX))
        except OSError as error:
            raise EngineError(f"{self.path}: the history was not changed ({reason(error)})") from error

    def _change(self, change: Callable[[Sums], Sums]) -> tuple[str, ...]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            usage, notices = self._read_or_move_aside()
            counts = change(usage.counts.astype(np.uint64)).astype(np.uint32)
            return notices + self._replace(counts, complete=not usage.notices)

    def _load(self) -> tuple[Usage, tuple[str, ...]]:
        """Read the file for the first time; what cannot be read or moved aside is left alone for good."""
        try:
            usage, moved = self._read_first()
        except EngineError as error:
            self._learn = False
            return self._empty(), (f"{error}; nothing will be learned",)
        return usage, moved + usage.notices

    def _read_first(self) -> tuple[Usage, tuple[str, ...]]:
        """Read without the lock, which needs a writable folder; only moving a refused file takes it."""
        try:
            return self._read(), ()
        except UsageRefused as refusal:
            if not self._learn:
                raise
            try:
                with self._lock:
                    return self._read_or_move_aside()
            except OSError as error:
                raise UsageRefused(f"{refusal}; it cannot be moved aside ({reason(error)})") from error

    def _read(self) -> Usage:
        model = self._model
        return read_usage(self.path, model.layers, model.experts, model.model_type, model.routed, named=self._named)

    def _empty(self) -> Usage:
        return UsageReader(self.path, self._model, self._named).usage()

    def _read_or_move_aside(self) -> tuple[Usage, tuple[str, ...]]:
        """Read the file, under the lock; move it aside if it is refused. Returns it and notices of a move."""
        try:
            return self._read(), ()
        except UsageRefused as refusal:
            kept = move_aside(self.path, "refused")
            return self._empty(), (f"{refusal}; kept as {kept.name}, a new history begins",)

    def _replace(self, counts: Counts, complete: bool) -> tuple[str, ...]:
        """Write the file, under the lock; what is there is first copied aside unless `complete`."""
        data = format_usage(counts, self._model.layers, self._model.model_type)
        if complete:
            replace_file(self.path, data, self._temporary)
            return ()
        kept = copy_aside(self.path, "refused")
        try:
            replace_file(self.path, data, self._temporary)
        except OSError:
            kept.unlink(missing_ok=True)
            raise
        return (f"{self.path}: not all of it was understood; as it was, it is kept as {kept.name}",)


def faded(counts: Sums, factor: float) -> Sums:
    """Counts times a factor up to 1, rounded half up, so that a 1 survives a half."""
    result: Sums = np.floor(counts * factor + 0.5).astype(np.uint64)
    return result
