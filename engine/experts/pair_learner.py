"""Counts which experts follow which after every turn, from the ring of recent choices; keeps the guesses current.

Of a turn of more than the ring's rows the last ones are counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from .couplings import DISTANCES, Couplings
from .guesses import PairGuesses
from .pair_history import PairHistory
from .recent import RecentChoices

Mixtures = Mapping[int, tuple[int, int]]
"""By layer, in order: how many experts a token chooses at most, and how many there are."""


class PairLearner:
    """One thread, the engine's, calls the methods, between forwards. guesses: what is expected, for native code."""

    def __init__(self, history: PairHistory, recent: RecentChoices, mixtures: Mixtures) -> None:
        self._history, self._recent, self._mixtures = history, recent, mixtures
        self._counted = recent.count.copy()
        self.guesses = PairGuesses(history.couplings.layers, history.couplings.experts)
        self._update()

    def follow(self, history: PairHistory) -> None:
        """Go on with another profile's pairs; what could not be saved to the last one's is no business of it."""
        self._history, self._counted = history, self._recent.count.copy()
        self._update()

    def restart(self) -> None:
        """Count what is noted from now on; the ring's rows have another width now."""
        self._counted = self._recent.count.copy()

    def after_turn(self) -> tuple[str, ...]:
        """Count what is new, and keep it. Returns notices; raises EngineError when that cannot be written."""
        if (self._recent.count == self._counted).all():
            return ()
        notices = self._history.save(self._count)
        self._counted = self._recent.count.copy()
        self._update()
        return notices

    def _count(self, couplings: Couplings) -> None:
        rows = {layer: self._recent.since(layer, int(self._counted[layer])) for layer in self._mixtures}
        for layer, before in rows.items():
            for distance in range(1, DISTANCES + 1):
                if layer + distance in rows:
                    couplings.count(layer, distance, before, rows[layer + distance])

    def _update(self) -> None:
        layers = list(self._mixtures)
        self.guesses.update(self._history.couplings, layers, [experts for _, experts in self._mixtures.values()])
