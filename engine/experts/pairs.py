"""`.coli_pairs`: which expert follows which, one and two layers on. colibrì reads and writes the same file.

    COLIPAIRS 1 <lines>
    <layer> <distance> <expert> <follower>:<count> ...

When the expert fires in a layer, the follower fires `count` times for the same token in the layer `distance` (1 or 2)
further on. At most FOLLOWERS followers, the most frequent first, in first-seen order on ties; lines by layer, distance,
expert. Gates are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .trace_reader import Lines, whole_forwards  # before numba: this decides where compiled code is kept

from numba import njit  # isort: skip

from ..errors import EngineError
from ..files import replace_file
from .couplings import DISTANCES, FOLLOWERS, format_lines
from .followers import PairLine

CELLS_MAX = 1 << 28
"""Counters of pairs, 12 bytes each. Kimi-K2, the largest of its kind, needs 18 million."""


class PairCounter:
    """Counts pairs while a trace is read.

    recall: int64 [DISTANCES, 2]; how many experts would have been guessed right, of how many, by the pairs counted
    before. Only with `guess`, which takes longer.
    """

    def __init__(self, guess: bool = False) -> None:
        self.recall = np.zeros((DISTANCES, 2), np.int64)
        self._guess = guess
        self._counts = np.zeros((0, DISTANCES, 0, 0), np.uint32)  # [layer, distance - 1, expert, follower]
        self._seen = np.zeros((0, DISTANCES, 0, 0), np.int64)  # the number of its first occurrence
        self._ticks = np.zeros(1, np.int64)

    def add(self, lines: Lines) -> None:
        """Count lines that are whole forwards. Raises EngineError when the trace names too many experts."""
        layers, experts = 1 + int(lines.layer.max()), 1 + int(lines.ids.max())
        known_layers, _, known, _ = self._counts.shape
        if layers > known_layers or experts > known:
            shape = (max(layers, known_layers), DISTANCES, max(experts, known), max(experts, known))
            if np.prod(shape, dtype=np.int64) > CELLS_MAX:
                raise EngineError(f"the trace names too many experts: their pairs need over {CELLS_MAX:,} counters")
            counts, seen = np.zeros(shape, np.uint32), np.zeros(shape, np.int64)
            counts[:known_layers, :, :known, :known] = self._counts
            seen[:known_layers, :, :known, :known] = self._seen
            self._counts, self._seen = counts, seen
        score = np.zeros(len(self._counts[0, 0]) if self._guess else 0, np.int64)
        _count_forwards(*lines, self._counts, self._seen, self._ticks, score, self.recall)

    def format(self) -> bytes:
        """Return the file."""
        return format_lines(self._best())

    def _best(self) -> Iterator[PairLine]:
        for layer, distance, expert in np.argwhere(self._counts.any(axis=3)).tolist():
            row, seen = self._counts[layer, distance, expert], self._seen[layer, distance, expert]
            followers = np.flatnonzero(row)
            best = followers[np.lexsort((seen[followers], -row[followers].astype(np.int64)))][:FOLLOWERS]
            yield PairLine(layer, distance + 1, expert, list(zip(best.tolist(), row[best].tolist(), strict=True)))


def write_pairs(trace: Iterable[Lines], path: Path) -> int:
    """Count the pairs of a trace and write the file, whole or not at all; returns its lines without the header.

    Raises EngineError when the trace cannot be read, OSError when the file cannot be written.
    """
    counter = PairCounter()
    for lines in whole_forwards(trace):
        counter.add(lines)
    data = counter.format()
    replace_file(path, data, path.with_name(path.name + ".new"))
    return data.count(b"\n") - 1


@njit(cache=True, nogil=True)
def _count_forwards(
    call: Any, row: Any, layer: Any, start: Any, ids: Any, counts: Any, seen: Any, ticks: Any, score: Any, recall: Any
) -> None:
    """Count the pairs of whole forwards. A layer's rows stand together; a layer not above the last begins a forward."""
    first = second = (-1, 0, 0)  # the last two layers of the running forward: index, first line, line after the last
    begin = 0
    while begin < len(layer):
        here, end = layer[begin], begin + 1
        while end < len(layer) and layer[end] == here and call[end] == call[begin]:
            end += 1
        if here <= first[0]:
            first = second = (-1, 0, 0)
        for before in (first, second):
            distance = here - before[0]
            if before[0] >= 0 and distance <= DISTANCES:
                at, tables = distance - 1, (counts[before[0], distance - 1], seen[before[0], distance - 1])
                rows = before[1], before[2], begin, end
                if len(score) > 0:
                    _guess_rows(row, start, ids, rows, tables[0], score, recall[at])
                _count_rows(row, start, ids, rows, tables[0], tables[1], ticks)
        first, second = (here, begin, end), first
        begin = end


@njit(cache=True, nogil=True)
def _partner(row: Any, wanted: int, at: int, end: int) -> int:
    """The first line from `at` on whose row is not below the wanted one, rows ascending; `end` if there is none."""
    while at < end and row[at] < wanted:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _count_rows(row: Any, start: Any, ids: Any, lines: Any, counts: Any, seen: Any, ticks: Any) -> None:
    at, source_end, begin, end = lines
    for line in range(begin, end):
        at = _partner(row, row[line], at, source_end)
        if at == source_end or row[at] != row[line]:
            continue
        for e in ids[start[at] : start[at + 1]]:
            for f in ids[start[line] : start[line + 1]]:
                ticks[0] += 1
                if counts[e, f] == 0:
                    seen[e, f] = ticks[0]
                counts[e, f] += 1


@njit(cache=True, nogil=True)
def _guess_rows(row: Any, start: Any, ids: Any, lines: Any, counts: Any, score: Any, recall: Any) -> None:
    """Guess as many experts as each row used, those that followed its source most often; count the right ones."""
    at, source_end, begin, end = lines
    for line in range(begin, end):
        at = _partner(row, row[line], at, source_end)
        if at == source_end or row[at] != row[line]:
            continue
        score[:] = 0
        for e in ids[start[at] : start[at + 1]]:
            for f in range(len(score)):
                score[f] += counts[e, f]
        chosen = ids[start[line] : start[line + 1]]
        recall[1] += len(chosen)
        for _ in range(len(chosen)):
            best = 0
            for f in range(1, len(score)):
                if score[f] > score[best]:
                    best = f
            if score[best] <= 0:
                break
            score[best] = -1
            for e in chosen:
                recall[0] += e == best
