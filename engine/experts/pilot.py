"""Look-ahead: while a layer computes, the experts that the next one is expected to choose are read.

What is expected comes from the next layer's own router, applied one layer early (see `model.foreseeing`), from who
usually follows those that the present layer chose (see `guesses`), or from both. A guess is read when no reader has
anything better to do, into a slot that no forward needs. When the forward reaches the guess's layer it takes what it
really chose, whatever its state: read already, under way, or not begun, which is an ordinary read then. All else
expires. Guesses change nothing that is counted, neither hits nor what a policy sees; only when reads happen.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from threading import Condition

import numpy as np

from ..board import Board, Counter, Foreseer
from ..errors import EngineError
from .placement import EMPTY, Placement
from .reader import ReaderPool
from .source import ExpertSource

SECOND = len(Foreseer)
"""Beside the `Foreseer`s: the router again, applied two layers early. Nothing is read for it."""


class Foresight:
    """Where native code writes what it expects of one token, likeliest first.

    ids: int32 [SECOND + 1, layers, 2 * top_k], by `Foreseer` and the layer that is foreseen. kept: int32 [SECOND + 1,
    layers]. weights is scratch.
    """

    def __init__(self, layers: int, top_k: int) -> None:
        self.ids = np.zeros((SECOND + 1, layers, 2 * max(1, top_k)), np.int32)
        self.kept = np.zeros((SECOND + 1, layers), np.int32)
        self.weights = np.zeros(max(1, top_k), np.float32)

    def of(self, by: Foreseer, layer: int) -> list[int]:
        """The experts that the layer before expects of this one, likeliest first."""
        return [int(expert) for expert in self.ids[by, layer, : self.kept[by, layer]]]

    def place(self, by: int, layer: int) -> tuple[int, int]:
        """Addresses of a layer's ids and of their number."""
        return self.ids[by, layer].ctypes.data, self.kept[by, layer:].ctypes.data


class _Stage(Enum):
    QUEUED = 0
    READING = 1
    READ = 2
    GONE = 3


class _Guess:
    """An expert that is read on a guess. ticket: of the forward that waits for it."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.stage = _Stage.QUEUED
        self.ticket: int | None = None
        self.error: EngineError | None = None


class Pilot:
    """The guesses under way. One thread, the engine's, calls the methods."""

    def __init__(self, placement: Placement, readers: ReaderPool, source: ExpertSource, board: Board) -> None:
        self._placement, self._readers, self._source, self._board = placement, readers, source, board
        self._lock = Condition()
        self._guesses: dict[tuple[int, int], _Guess] = {}
        self._late: dict[tuple[int, int], _Guess] = {}  # expired while they were read

    def begin(self, layer: int) -> None:
        """The forward is at a layer: guesses about others expire."""
        if self._guesses or self._late:
            self._expire([where for where in self._guesses if where[0] != layer])

    def guess(self, layer: int, experts: list[int], spare: int) -> None:
        """Read what a layer is expected to choose, likeliest first, as long as more than `spare` slots are free."""
        placement = self._placement
        for expert in experts:
            where = layer, expert
            if where in self._late:
                self._guesses[where] = self._late.pop(where)
            if placement.slot_of[where] != EMPTY or where in self._guesses or expert in placement.reserved[layer]:
                continue
            slot = placement.claim(layer, expert, spare)
            if slot == EMPTY:
                return
            guess = self._guesses[where] = _Guess(slot)
            self._readers.fetch_guess(
                self._source.reads[where],
                placement.slot(slot),
                partial(self._begun, guess),
                partial(self._ended, guess),
            )

    def take(self, layer: int, expert: int, ticket: int) -> tuple[int, bool]:
        """Take the guess about an expert that a forward needs: its slot (EMPTY: there is none), and whether it is read.

        If it is not, `ReaderPool.next_loaded` will return the ticket. Whether it was useful is known when it is there:
        see `proved`.
        """
        guess = self._guesses.pop((layer, expert), None) or self._late.pop((layer, expert), None)
        if guess is None:
            return EMPTY, False
        with self._lock:
            queued, read = guess.stage is _Stage.QUEUED, guess.stage is _Stage.READ and guess.error is None
            if guess.stage is _Stage.READING:
                guess.ticket = ticket
            else:
                guess.stage = _Stage.GONE
        if queued or guess.error is not None:
            self._readers.fetch(ticket, self._source.reads[layer, expert], self._placement.slot(guess.slot))
        return guess.slot, read

    def proved(self) -> None:
        """An expert that was taken is in memory thanks to a guess."""
        self._count(Counter.AHEAD_USEFUL)

    def stop(self) -> None:
        """Let all guesses expire; none is read any more when this returns."""
        self._expire(list(self._guesses))
        with self._lock:
            self._lock.wait_for(lambda: all(guess.stage is _Stage.READ for guess in self._late.values()))
        self._expire([])

    def _expire(self, places: list[tuple[int, int]]) -> None:
        for where in places:
            self._late[where] = self._guesses.pop(where)
        for (layer, expert), guess in list(self._late.items()):
            with self._lock:
                stage = guess.stage
                if stage is _Stage.QUEUED:
                    guess.stage = _Stage.GONE
            if stage is _Stage.READING:
                continue
            if stage is _Stage.READ and guess.error is None:
                self._count(Counter.AHEAD_WASTED)
                self._board.counters[Counter.BYTES_READ] += self._source.expert_bytes
            self._placement.give_back(layer, expert, guess.slot)
            del self._late[layer, expert]

    def _count(self, outcome: Counter) -> None:
        self._board.counters[Counter.AHEAD_READS] += 1
        self._board.counters[outcome] += 1

    # on a reader's thread

    def _begun(self, guess: _Guess) -> bool:
        with self._lock:
            if guess.stage is not _Stage.QUEUED:
                return False
            guess.stage = _Stage.READING
            return True

    def _ended(self, guess: _Guess, error: EngineError | None) -> None:
        with self._lock:
            guess.stage, guess.error = _Stage.READ, error
            ticket = guess.ticket
            self._lock.notify_all()
        if ticket is not None:
            self._readers.tell(ticket, error, guessed=True)
