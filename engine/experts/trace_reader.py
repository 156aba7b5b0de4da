"""Reads route traces, ours and colibrì's (see `trace`): a block at a time, as arrays.

A line that is none is skipped; the first few are named by number and reason, all are counted. Nothing in a file makes
the reader take more memory than a few times its block, and numbers outside the bounds below make a line malformed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import kernels as _kernels  # noqa: F401 - decides where compiled code is kept, before any is defined
from ..errors import EngineError
from ..files import reason
from .policies.state import NEAR

from numba import njit  # isort: skip

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

BLOCK = 8 << 20
"""Bytes read at a time."""

LINE_MAX = 1 << 18

LAYERS_MAX = 1 << 10
EXPERTS_MAX = 1 << 12
ROWS_MAX = 1 << 20
NAMED_MAX = 5

_REASONS = {
    1: "a call number, a row and a layer must come first",
    2: f"the row must be below {ROWS_MAX:,}",
    3: f"the layer must be below {LAYERS_MAX:,}",
    4: "an expert must be written as <id>:<gate>",
    5: f"the expert must be below {EXPERTS_MAX:,}",
    6: "no expert follows",
    7: "the line is too long",
}


class Lines(NamedTuple):
    """Some lines of a trace, in order.

    call, row, layer: int64 [lines]. start: int64 [lines + 1], where a line's experts begin in `ids`, int32, in order
    of selection.
    """

    call: Ints
    row: Ints
    layer: Ints
    start: Ints
    ids: Ids


class TraceReader:
    """A route trace. Iterate over it (once) for its `Lines`.

    lines: how many were good so far. malformed: how many were not; complaints: the first few of them, each a line
    that names the file, the number and the reason. position, size: bytes read, and those of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = self.malformed = self.position = self.size = 0
        self.complaints: list[str] = []
        self._number = 0  # lines read

    def __iter__(self) -> Iterator[Lines]:
        """Read on. Raises EngineError when the file cannot be read, or at its end when no line was good."""
        try:
            with self.path.open("rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                rest = b""
                while data := file.read(BLOCK):
                    self.position += len(data)
                    whole, newline, tail = data.rpartition(b"\n")
                    if newline:
                        yield self._parse(rest + whole + newline)
                        rest = tail
                    elif len(rest) <= LINE_MAX:  # else the line is refused whatever follows
                        rest += data
                if rest:
                    yield self._parse(rest + b"\n")
        except OSError as error:
            raise EngineError(f"{self.path}: the trace cannot be read ({reason(error)})") from error
        if not self.lines:
            what = self.complaints[0] if self.complaints else f"{self.path}: empty"
            raise EngineError(f"{what}; this is no route trace (--route-trace writes one)")

    def _parse(self, data: bytes) -> Lines:
        count = data.count(b"\n")
        numbers = np.empty((3, count), np.int64)
        start = np.zeros(count + 1, np.int64)
        ids = np.empty(data.count(b":") + 1, np.int32)
        bad = np.empty((2, NAMED_MAX), np.int64)
        good, wrong = _parse(np.frombuffer(data, np.uint8), numbers, start, ids, bad)
        for number, code in bad[:, :wrong].T[: max(0, NAMED_MAX - len(self.complaints))].tolist():
            self.complaints.append(f"{self.path}: line {self._number + number + 1:,}: {_REASONS[code]}")
        self.lines += good
        self.malformed += wrong
        self._number += count
        call, row, layer = numbers[:, :good]
        return Lines(call, row, layer, start[: good + 1], ids[: start[good]])


def whole_forwards(pieces: Iterable[Lines]) -> Iterator[Lines]:
    """Cut a trace where forwards end, that is where the next call's layer is not above the last one's."""
    rest: Lines | None = None
    for lines in pieces:
        joined = lines if rest is None else _join_lines(rest, lines)
        ends = np.flatnonzero((np.diff(joined.layer) <= 0) & (np.diff(joined.call) != 0))
        if not len(ends):
            rest = joined
            continue
        end = int(ends[-1]) + 1
        yield _cut(joined, 0, end)
        rest = _cut(joined, end, len(joined.layer))
    if rest is not None and len(rest.layer):
        yield rest


def _cut(lines: Lines, begin: int, end: int) -> Lines:
    start = lines.start[begin : end + 1]
    ids = lines.ids[start[0] : start[-1]]
    return Lines(lines.call[begin:end], lines.row[begin:end], lines.layer[begin:end], start - start[0], ids)


def _join_lines(first: Lines, second: Lines) -> Lines:
    return Lines(
        np.concatenate((first.call, second.call)),
        np.concatenate((first.row, second.row)),
        np.concatenate((first.layer, second.layer)),
        np.concatenate((first.start, second.start[1:] + first.start[-1])),
        np.concatenate((first.ids, second.ids)),
    )


class LayerTrace(NamedTuple):
    """One layer of a trace. `calls` [forwards + 1] are boundaries in `rows`, `rows` [tokens + 1] in `ids`.

    ids: int32, in order of selection. experts: how many a layer has, as far as is known. before: the layers
    before this one, the next one last, as many as a policy looks at (see `linked`); they have the same tokens.
    """

    experts: int
    calls: Ints
    rows: Ints
    ids: Ids
    before: tuple[LayerTrace, ...] = ()


def linked(layers: Mapping[int, LayerTrace]) -> dict[int, LayerTrace]:
    """The same layers, in order, each with those before it that have as many tokens."""
    alone = {layer: layers[layer]._replace(before=()) for layer in sorted(layers)}
    found = {}
    for place, (layer, trace) in enumerate(alone.items()):
        others = list(alone.values())[max(0, place - NEAR) : place]
        found[layer] = trace._replace(before=tuple(other for other in others if len(other.rows) == len(trace.rows)))
    return found


def matrix(trace: LayerTrace, width: int) -> Ids:
    """What each token of a layer chose, int32 [tokens, width], -1 behind the last."""
    counts = np.diff(trace.rows)
    ids = np.full((len(counts), width), -1, np.int32)
    ids[np.arange(width) < counts[:, None]] = trace.ids[trace.rows[0] : trace.rows[-1]]
    return ids


def near_of(trace: LayerTrace) -> Ids:
    """What each token chose in the layers before, as a policy takes it: int32 [tokens, NEAR or 0, k]."""
    tokens = len(trace.rows) - 1
    if not trace.before:
        return np.zeros((tokens, 0, 0), np.int32)
    width = max(int(np.diff(other.rows).max(initial=0)) for other in trace.before)
    near = np.full((tokens, NEAR, width), -1, np.int32)
    for place, other in enumerate(trace.before, NEAR - len(trace.before)):
        near[:, place] = matrix(other, width)
    return near


def read_layers(trace: Iterable[Lines]) -> dict[int, LayerTrace]:
    """Read a whole trace into memory, layer by layer (about four bytes for every expert chosen)."""
    pieces: dict[int, list[tuple[Ints, Ints, Ids]]] = {}
    for lines in trace:
        sizes = np.diff(lines.start)
        for layer in np.unique(lines.layer).tolist():
            mine = lines.layer == layer
            pieces.setdefault(layer, []).append((lines.call[mine], sizes[mine], lines.ids[np.repeat(mine, sizes)]))
    layers = {layer: _join(pieces[layer]) for layer in sorted(pieces)}
    experts = max((trace.experts for trace in layers.values()), default=0)
    return linked({layer: trace._replace(experts=experts) for layer, trace in layers.items()})


def _join(pieces: list[tuple[Ints, Ints, Ids]]) -> LayerTrace:
    call, sizes, ids = (np.concatenate(column) for column in zip(*pieces, strict=True))
    first = np.flatnonzero(np.diff(call, prepend=call[0] - 1))
    rows = np.concatenate(([0], np.cumsum(sizes)))
    return LayerTrace(int(ids.max()) + 1, np.append(first, len(call)), rows, ids)


SPACE, NEWLINE, RETURN, COLON, DOT, MINUS = 32, 10, 13, 58, 46, 45
DIGITS_MAX = 18


@njit(cache=True, nogil=True)
def _number(data: Any, at: int) -> Any:
    """(value, position after it); the value is -1 when no number of at most DIGITS_MAX digits stands there."""
    value, begin = 0, at
    while at < len(data) and 48 <= data[at] <= 57:
        value = value * 10 + (data[at] - 48)
        at += 1
        if at - begin > DIGITS_MAX:
            return -1, at
    return (value if at > begin else -1), at


@njit(cache=True, nogil=True)
def _gate_end(data: Any, at: int) -> int:
    """The position after a decimal number such as -0.3121; `at` when there is none."""
    begin = at
    at += data[at] == MINUS
    digits = 0
    while 48 <= data[at] <= 57 or (data[at] == DOT and digits > 0):
        digits += data[at] != DOT
        at += 1
    return at if digits else begin


@njit(cache=True, nogil=True)
def _line(data: Any, at: int, line: int, numbers: Any, ids: Any, filled: int) -> Any:
    """Read the line that begins at `at`: (0 or why it is malformed, how many of `ids` are filled)."""
    for field in range(3):
        value, at = _number(data, at)
        if value < 0 or data[at] != SPACE:
            return 1, filled
        numbers[field, line] = value
        at += 1
    if numbers[1, line] >= ROWS_MAX:
        return 2, filled
    if numbers[2, line] >= LAYERS_MAX:
        return 3, filled
    begin = filled
    while data[at] != NEWLINE and data[at] != RETURN:
        value, at = _number(data, at)
        if value < 0 or data[at] != COLON:
            return 4, begin
        if value >= EXPERTS_MAX:
            return 5, begin
        end = _gate_end(data, at + 1)
        if end == at + 1 or (data[end] != SPACE and data[end] != NEWLINE and data[end] != RETURN):
            return 4, begin
        ids[filled] = value
        filled += 1
        at = end + (data[end] == SPACE)
    return (0 if filled > begin else 6), filled


@njit(cache=True, nogil=True)
def _parse(data: Any, numbers: Any, start: Any, ids: Any, bad: Any) -> Any:
    """Read lines, each with its newline; returns how many were good and how many malformed.

    Fills numbers [3, lines], start, ids; and bad [2, NAMED_MAX]: number and reason of the first malformed lines.
    """
    good = wrong = filled = begin = 0
    for at in range(len(data)):
        if data[at] != NEWLINE:
            continue
        why, end = 7, filled
        if at - begin <= LINE_MAX:
            why, end = _line(data, begin, good, numbers, ids, filled)
        if why == 0:
            filled = end
            good += 1
            start[good] = filled
        else:
            if wrong < bad.shape[1]:
                bad[0, wrong], bad[1, wrong] = good + wrong, why
            wrong += 1
        begin = at + 1
    return good, wrong
