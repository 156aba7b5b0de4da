"""`.coli_usage`: how often each expert was chosen, over all runs. colibrì reads and writes the same file.

The format is text, one record a line:

    -1 <layers> <experts>        the model's dimensions
    -2 1 <engine id>             format version and who wrote it (FNV-1a of the engine's name)
    <layer> <expert> <count>     by layer, then expert; only counts above zero

An empty file means "no history yet". Layer `layers` is the multi-token-prediction (MTP) row: this engine
never runs it, but colibrì does, so its counts are carried along.

Files come from outside: any bytes may stand in them, in lines of any length. Reading takes one pass and
little memory, a line that is no record is skipped and counted. `history` writes them.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from ..files import reason, skip_line

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
    reader = UsageReader(path, HistoryModel(layers, experts, model_type, frozenset(routed)), named)
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
class HistoryModel:
    """What a history must fit."""

    layers: int
    experts: int
    model_type: str
    routed: frozenset[int]


class UsageReader:
    """One pass over a history file; the counts are delivered only if no line refuses the whole file."""

    def __init__(self, path: Path, model: HistoryModel, named: bool) -> None:
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
                skip_line(file)
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


@dataclass(frozen=True, slots=True)
class Glance:
    """What a history says about itself, whatever model it is of.

    shape: layers and experts by its header, None without one. total: the sum of all counts. records: how many
    there are.
    """

    shape: tuple[int, int] | None
    total: int
    records: int


def glance(path: Path) -> Glance:
    """Look at a history without knowing its model; one that does not exist is empty, lines that are none count nothing.

    Raises EngineError when it cannot be read.
    """
    shape, total, records = None, 0, 0
    try:
        with path.open("rb") as file:
            for line in iter(lambda: file.readline(LINE_MAX), b""):
                if file.tell() > FILE_MAX:
                    raise EngineError(f"{path}: no history is larger than {FILE_MAX} bytes")
                if record := _RECORD.fullmatch(line):
                    layer, expert, count = map(int, record.groups())
                    if layer == -1:
                        shape = (expert, count)
                    elif layer >= 0 and expert >= 0 and count > 0:
                        total, records = total + count, records + 1
    except FileNotFoundError:
        pass
    except OSError as error:
        raise EngineError(f"{path}: the history cannot be read ({reason(error)})") from error
    return Glance(shape, total, records)


def format_usage(counts: Counts, layers: int, model_type: str) -> bytes:
    """Return the file for `counts`, uint32 [layers or layers + 1, experts]; empty when all are zero."""
    rows, columns = np.nonzero(counts)
    if not len(rows):
        return b""
    header = f"-1 {layers} {counts.shape[1]}\n-2 {VERSION} {engine_id(engine_name(model_type))}\n"
    cells = zip(rows.tolist(), columns.tolist(), counts[rows, columns].tolist(), strict=True)
    return (header + "".join(map("%d %d %d\n".__mod__, cells))).encode()
