"""`.coli_usage`: how often each expert was chosen, over all runs. colibrì reads and writes the same file.

The format is text, one record a line:

    -1 <layers> <experts>        the model's dimensions
    -2 1 <engine id>             format version and who wrote it (FNV-1a of the engine's name)
    <layer> <expert> <count>     by layer, then expert; only counts above zero

An empty file means "no history yet". Layer `layers` is the multi-token-prediction (MTP) row: this engine
never runs it, but colibrì does, so its counts are carried along.

Files come from outside: any bytes may stand in them, in lines of any length. Reading takes one pass and
little memory, a line that is no record is skipped and counted, and a file that was not understood whole
is kept aside before it is written over. Saving adds what was counted since the last save to what the file
holds *now*, under a lock, so that two running programs never lose each other's counts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from ..files import FileLock, copy_aside, move_aside, reason, replace_file

Counts = npt.NDArray[np.uint32]

VERSION = 1
COUNT_MAX = int(np.iinfo(np.uint32).max)
FILE_MAX = 256 << 20
"""No history comes near this: a model of 100 layers with 1,000 experts each fills 2 MB."""
LINE_MAX = 4096

_ENGINES = {
    "glm": "glm_moe_dsa",
    "glm5_moe": "glm_moe_dsa",
    "glm_moe_dsa": "glm_moe_dsa",
    "inkling": "inkling",
    "inkling_mm_model": "inkling",
    "kimi_k3": "kimi_k3",
    "kimi_linear": "kimi_k3",
    "olmoe": "olmoe",
    "qwen3_5_moe": "qwen36",
    "qwen3_5_moe_text": "qwen36",
}
"""config.json's model_type -> the name of colibrì's engine for it."""

_RECORD = re.compile(rb"[ \t]*([+-]?[0-9]{1,18})[ \t]+([+-]?[0-9]{1,18})[ \t]+(\+?[0-9]{1,18})\s*")


class UsageRefused(EngineError):
    """A history that must not be used for this model; the message says whose it is or what is wrong."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A history as read.

    counts: uint32 [layers + 1, experts]; the last row is the MTP layer's, zero unless it was asked for.
    total: the sum of all counts.
    notices: what in the file was skipped or reinterpreted, one line each. Without any, writing `counts` over
        the file loses nothing.
    """

    counts: Counts
    total: int
    notices: tuple[str, ...]


def engine_id(name: str) -> int:
    """Return the identity that a history carries: FNV-1a, 32 bit, of the engine's name in UTF-8."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def engine_name(model_type: str) -> str:
    """Return the engine's name for a config's `model_type`: colibrì's if it has one, else the type itself."""
    return _ENGINES.get(model_type, model_type)


def read_usage(
    path: Path, layers: int, experts: int, model_type: str, routed: Set[int], *, named: bool = False
) -> Usage:
    """Read a history for a model of `layers` layers with up to `experts` experts each.

    routed: the layers that have a router, `layers` for the MTP row; records of other layers are dropped.
    named: a person asked for this very file, which allows another engine's history (with a notice).
    A file that does not exist is an empty history. Duplicate records add up; counts stop at 2^32 - 1.
    Raises UsageRefused for a history of other dimensions, a newer format or another engine, and for what is
    no history at all; EngineError when the file cannot be read.
    """
    reader = _Reader(path, _Model(layers, experts, model_type, frozenset(routed)), named)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageRefused(f"{path}: not a regular file, so no history")
        if status.st_size > FILE_MAX:
            raise UsageRefused(f"{path}: {status.st_size} bytes, no history is larger than {FILE_MAX}")
        with path.open("rb") as file:
            reader.read(file)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise EngineError(f"{path}: the history cannot be read ({reason(error)})") from error
    return reader.usage()


@dataclass(frozen=True, slots=True)
class _Model:
    """What a history must fit."""

    layers: int
    experts: int
    model_type: str
    routed: frozenset[int]


class _Reader:
    """One pass over a history file; the counts are delivered only if no line refuses the whole file."""

    def __init__(self, path: Path, model: _Model, named: bool) -> None:
        self.path, self.named = path, named
        self.layers, self.experts, self.engine = model.layers, model.experts, engine_name(model.model_type)
        self.has_router = [layer in model.routed for layer in range(model.layers + 1)]
        self.cells = [0] * ((model.layers + 1) * model.experts)
        self.malformed = self.dropped = 0
        self.foreign: str | None = None

    def read(self, file: BinaryIO) -> None:
        """Read all records. Raises UsageRefused."""
        if file.read(4) == b"IKU1":
            raise UsageRefused(f"{self.path}: a binary history of inkling (IKU1), which is not read here")
        file.seek(0)
        while line := file.readline(LINE_MAX):
            if len(line) == LINE_MAX and not line.endswith(b"\n"):
                _skip_line(file)
            elif record := _RECORD.fullmatch(line):
                self._record(*map(int, record.groups()))
                continue
            text = line.strip()
            self.malformed += bool(text) and not text.startswith(b"#")

    def _record(self, layer: int, expert: int, count: int) -> None:
        if layer == -1:
            if (expert, count) != (self.layers, self.experts):
                raise UsageRefused(
                    f"{self.path}: a history of {expert} layers x {count} experts, "
                    f"this model has {self.layers} x {self.experts}"
                )
        elif layer == -2:
            self._identity(expert, count)
        elif layer >= 0:  # other negative layers are headers of later versions, which older readers ignore
            if layer <= self.layers and self.has_router[layer] and 0 <= expert < self.experts:
                self.cells[layer * self.experts + expert] += count
            else:
                self.dropped += 1

    def _identity(self, version: int, writer: int) -> None:
        if version > VERSION:
            raise UsageRefused(f"{self.path}: format version {version}, only version {VERSION} is known")
        if writer == engine_id(self.engine):
            return
        known = {engine_id(name): name for name in _ENGINES.values()}
        foreign = known.get(writer, f"an unknown engine ({writer})")
        if not self.named:
            raise UsageRefused(
                f"{self.path}: written by {foreign}, this model is {self.engine}; pass --usage to use it"
            )
        self.foreign = foreign

    def usage(self) -> Usage:
        """Return what was read."""
        cells = np.array([min(cell, COUNT_MAX) for cell in self.cells], np.uint32)
        counts = cells.reshape(self.layers + 1, self.experts)
        notices = []
        if self.foreign:
            notices.append(f"written by {self.foreign}, not {self.engine}; used because you named it")
        if self.malformed:
            notices.append(f"skipped {self.malformed} malformed line(s)")
        if self.dropped:
            notices.append(f"ignored {self.dropped} record(s) of layers or experts not in this model")
        total = int(counts.sum(dtype=np.uint64))
        return Usage(counts, total, tuple(f"{self.path}: {notice}" for notice in notices))


def _skip_line(file: BinaryIO) -> None:
    """Read on behind the next newline."""
    while (part := file.readline(1 << 16)) and not part.endswith(b"\n"):
        pass


def format_usage(counts: Counts, layers: int, model_type: str) -> bytes:
    """Return the file for `counts`, uint32 [layers or layers + 1, experts]; empty when all are zero."""
    rows, columns = np.nonzero(counts)
    if not len(rows):
        return b""
    header = f"-1 {layers} {counts.shape[1]}\n-2 {VERSION} {engine_id(engine_name(model_type))}\n"
    cells = zip(rows.tolist(), columns.tolist(), counts[rows, columns].tolist(), strict=True)
    return (header + "".join(map("%d %d %d\n".__mod__, cells))).encode()


class UsageHistory:
    """The history of one model and profile while an engine runs: loaded once, saved after every turn.

    counts: uint32 [layers, experts], as loaded; the live counters start from a copy of it.
    total: the sum of `counts`.
    notices: what a person should know about the loading, one line each.
    """

    def __init__(self, path: Path, model: _Model, named: bool, learn: bool, decay: float | None) -> None:
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
        model = _Model(layers, experts, model_type, frozenset(routed) | {layers})
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
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:
                usage, notices = self._read_or_move_aside()
                counts = usage.counts.astype(np.uint64)
                counts[: self._model.layers] += added
                counts = np.minimum(counts, COUNT_MAX)
                if self._decay is not None:
                    counts = np.floor(counts * self._decay + 0.5)
                kept = self._replace(counts.astype(np.uint32), complete=not usage.notices)
                self._baseline = now
        except OSError as error:
            raise EngineError(
                f"{self.path}: the history was not saved ({reason(error)}); the next save will add it"
            ) from error
        return notices + kept

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
        return _Reader(self.path, self._model, self._named).usage()

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
