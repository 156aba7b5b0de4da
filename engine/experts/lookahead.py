"""How well one could have known which experts a token would need (LOOKA): measured on a trace, nothing is read ahead.

Three guesses, as many experts as the token then used: those of the token before, and those that most often followed
this token's choice one and two layers earlier, by the pairs seen so far. Recall is the share that was guessed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .pairs import PairCounter
from .trace_reader import LAYERS_MAX, Lines  # before numba: this decides where compiled code is kept

from numba import njit  # isort: skip


class Lookahead:
    """Measures recall while a trace is read."""

    def __init__(self) -> None:
        self._pairs = PairCounter(guess=True)
        self._recall = np.zeros(2, np.int64)  # of the token before: found, wanted
        self._before = np.zeros((LAYERS_MAX, 1), np.int32)  # the last token's choice in every layer
        self._widths = np.zeros(LAYERS_MAX, np.int64)

    def add(self, lines: Lines) -> None:
        """Measure on lines that are whole forwards. Raises EngineError when the trace names too many experts."""
        missing = int(np.diff(lines.start).max()) - self._before.shape[1]
        if missing > 0:
            self._before = np.pad(self._before, ((0, 0), (0, missing)))
        _previous_token(lines.layer, lines.start, lines.ids, self._before, self._widths, self._recall)
        self._pairs.add(lines)

    @property
    def previous_token(self) -> float | None:
        """Recall of the token before, 0..1; None when nothing could be measured."""
        return _share(*self._recall.tolist())

    def layers_on(self, distance: int) -> float | None:
        """Recall by pairs, 1 or 2 layers on, 0..1; None when nothing could be measured."""
        return _share(*self._pairs.recall[distance - 1].tolist())


def _share(found: int, wanted: int) -> float | None:
    return found / wanted if wanted else None


@njit(cache=True, nogil=True)
def _previous_token(layer: Any, start: Any, ids: Any, before: Any, widths: Any, recall: Any) -> None:
    for line in range(len(layer)):
        last, chosen = before[layer[line]], ids[start[line] : start[line + 1]]
        width = widths[layer[line]]
        if width > 0:
            recall[1] += len(chosen)
            for e in chosen:
                for i in range(width):
                    recall[0] += e == last[i]
        for i in range(len(chosen)):
            last[i] = chosen[i]
        widths[layer[line]] = len(chosen)
