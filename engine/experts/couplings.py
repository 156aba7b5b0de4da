"""Which experts follow which, counted while a model runs: what `.coli_pairs` holds (see `pairs`), bounded in memory.

Of every expert and distance the ROOM most frequent followers are remembered, in the file's order. A file lists
FOLLOWERS of them, so an expert that became frequent lately is not forgotten at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .followers import PairLine

FOLLOWERS = 16
DISTANCES = 2
ROOM = 64
COUNT_MAX = int(np.iinfo(np.uint32).max)
_ORDER_BITS = 29

Ints = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """What tokens chose in one layer: ids int32 [rows, k], of which kept [rows] count; clock uint32 [rows], the
    forward's number."""

    ids: npt.NDArray[np.int32]
    kept: npt.NDArray[np.int32]
    clock: npt.NDArray[np.uint32]


class Couplings:
    """ids: int16 [layers, DISTANCES, experts, room], the most frequent follower first, -1 where there is none.
    counts: uint32, the same shape. age: int16, place in the order in which they were first seen.
    """

    def __init__(self, layers: int, experts: int) -> None:
        shape = (layers, DISTANCES, experts, min(ROOM, experts))
        self.layers, self.experts = layers, experts
        self.ids = np.full(shape, -1, np.int16)
        self.counts = np.zeros(shape, np.uint32)
        self.age = np.zeros(shape, np.int16)

    def count(self, layer: int, distance: int, before: Rows, after: Rows) -> None:
        """Count the tokens of a layer and of the one `distance` further on."""
        before, after = _same_rows(before, after)
        if not len(before.ids):
            return
        there = np.arange(before.ids.shape[1]) < before.kept[:, None]
        here = np.arange(after.ids.shape[1]) < after.kept[:, None]
        keys = before.ids[:, :, None].astype(np.int64) * self.experts + after.ids[:, None, :]
        pairs = keys[there[:, :, None] & here[:, None, :]]
        size = self.experts**2
        counts = np.bincount(pairs, minlength=size).reshape(self.experts, -1)
        seen = np.zeros(size, np.int64)
        seen[pairs[::-1]] = np.arange(len(pairs))[::-1]  # the last one stands, that is the first
        self._add(layer, distance, counts, seen.reshape(self.experts, -1))

    def take(self, lines: Iterable[PairLine], layers: frozenset[int]) -> int:
        """Take over what a file says, knowing nothing yet. Of an expert that is listed twice, the last line counts.

        layers: those that have a router. Returns how many followers were left out because the model has no such layer
        or expert.
        """
        left_out = 0
        said: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for line in lines:
            fitting = [(e, n) for e, n in line.followers if e < self.experts and n > 0]
            fits = line.expert < self.experts and {line.layer, line.layer + line.distance} <= layers
            left_out += len(line.followers) - len(fitting) * fits
            if fits and fitting:
                said[line.layer, line.distance - 1, line.expert] = fitting
        if said:
            self._take(np.array(list(said)), list(said.values()))
        return left_out

    def _take(self, places: Ints, said: Sequence[list[tuple[int, int]]]) -> None:
        """places: [lines, 3], the indices of each line; said: its followers and how often they follow."""
        line = np.repeat(np.arange(len(said)), [len(followers) for followers in said])
        ids, counts = np.array(list(chain.from_iterable(said)), np.int64).T
        pairs, first, which = np.unique(line * self.experts + ids, return_index=True, return_inverse=True)
        amounts = np.minimum(np.bincount(which, counts).astype(np.int64), COUNT_MAX)
        order = np.lexsort((first, -amounts, pairs // self.experts))
        line, ids = np.divmod(pairs[order], self.experts)
        place = np.arange(len(line)) - np.searchsorted(line, line)
        there = place < self.ids.shape[-1]
        where = (*places[line[there]].T, place[there])
        self.ids[where], self.counts[where], self.age[where] = ids[there], amounts[order][there], place[there]

    def add(self, other: Couplings) -> None:
        """Add what another of the same shape counted."""
        for layer, distance in np.argwhere(other.counts.any(axis=(2, 3))).tolist():
            ids, seen = other.ids[layer, distance], np.zeros((self.experts, self.experts), np.int64)
            rows, place = np.nonzero(ids >= 0)
            counts = np.zeros_like(seen)
            counts[rows, ids[rows, place]] = other.counts[layer, distance, rows, place]
            seen[rows, ids[rows, place]] = other.age[layer, distance, rows, place]
            self._add(layer, distance + 1, counts, seen)

    def _add(self, layer: int, distance: int, counts: Ints, seen: Ints) -> None:
        """Add counts [experts, experts] that were first seen at `seen`, and order the followers anew."""
        touched = np.flatnonzero(counts.any(axis=1))
        ids, known = self.ids[layer, distance - 1, touched], self.counts[layer, distance - 1, touched]
        room, rows = ids.shape[1], np.broadcast_to(np.arange(len(touched))[:, None], ids.shape)
        total, order = counts[touched], seen[touched] + room
        listed = ids >= 0
        total[rows[listed], ids[listed]] += known[listed]
        order[rows[listed], ids[listed]] = self.age[layer, distance - 1, touched][listed]
        # Where a count is 0 nothing is listed. An order is a place among a ring's pairs, far below 1 << _ORDER_BITS.
        best = np.argsort(order - (total << _ORDER_BITS), axis=1)[:, :room]
        amounts = np.minimum(np.take_along_axis(total, best, 1), COUNT_MAX)
        self.ids[layer, distance - 1, touched] = np.where(amounts > 0, best, -1)
        self.counts[layer, distance - 1, touched] = amounts
        ages = np.empty(ids.shape, np.int16)
        np.put_along_axis(ages, np.argsort(np.take_along_axis(order, best, 1), axis=1), np.arange(room)[None], 1)
        self.age[layer, distance - 1, touched] = ages

    def format(self) -> bytes:
        """Return the file; without any pair, that of none."""
        return format_lines(self.lines())

    def lines(self) -> Iterator[PairLine]:
        """What the file lists."""
        places = np.argwhere(self.counts[..., 0])
        where = tuple(places.T)
        ids, counts = self.ids[where][:, :FOLLOWERS], self.counts[where][:, :FOLLOWERS]
        known = np.count_nonzero(counts, axis=1)
        columns = places.tolist(), ids.tolist(), counts.tolist(), known.tolist()
        for (layer, distance, expert), followers, amounts, number in zip(*columns, strict=True):
            yield PairLine(layer, distance + 1, expert, list(zip(followers, amounts, strict=True))[:number])


def format_lines(lines: Iterable[PairLine]) -> bytes:
    """Return the file of these lines, which come in order."""
    texts = [
        f"{line.layer} {line.distance} {line.expert} " + " ".join([f"{f}:{n}" for f, n in line.followers])
        for line in lines
    ]
    return "".join(f"{text}\n" for text in [f"COLIPAIRS 1 {len(texts)}", *texts]).encode()


def couplings_bytes(layers: int, experts: int) -> int:
    """Bytes of `Couplings`."""
    return layers * DISTANCES * experts * min(ROOM, experts) * 8


def _same_rows(before: Rows, after: Rows) -> tuple[Rows, Rows]:
    """The rows that both layers have: a forward that was stopped on its way leaves some in the first layers alone."""
    if np.array_equal(before.clock, after.clock):
        return before, after
    _, at, there = np.intersect1d(_keys(before.clock), _keys(after.clock), assume_unique=True, return_indices=True)
    return _some(before, np.sort(at)), _some(after, np.sort(there))


def _some(rows: Rows, at: Ints) -> Rows:
    return Rows(rows.ids[at], rows.kept[at], rows.clock[at])


def _keys(clock: npt.NDArray[np.uint32]) -> Ints:
    """A number for every row, the same in all layers: its forward's and its place in that."""
    starts = np.flatnonzero(np.diff(clock.astype(np.int64), prepend=-1))
    place = np.arange(len(clock)) - np.repeat(starts, np.diff(starts, append=len(clock)))
    keys: Ints = clock.astype(np.int64) << 16 | place
    return keys
