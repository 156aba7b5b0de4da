"""The conversation a model holds: which ids its memory stands for, and how far back it can go.

Keys and values are addressed by position, so a conversation can be cut anywhere and continued. A running state
cannot: it stands for exactly the ids it has seen. Copies of it (marks) are kept near the end of prompts, at the end of
turns and, one that moves along, on the way; going back means to return to the last mark before the change and to read
from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, Phase
from .forward import Model
from .kv import MARKS, KVCache

Ids = npt.NDArray[np.int64]

_PASSING = 64
"""Ids after which the moving mark moves along, at the next forward: a stop costs little more to read again."""


class Conversation:
    """The ids in a model's memory.

    ids: what is held. recurrent: whether the model has layers with a running state.
    """

    def __init__(self, model: Model, kv: KVCache, board: Board) -> None:
        self.ids: list[int] = []
        self.recurrent = kv.recurrent
        self._model, self._kv, self._board = model, kv, board
        self._marks: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self._passing = 0  # where the moving mark is; 0: nowhere

    def forget(self) -> None:
        """Hold nothing."""
        self._marks.clear()
        self._rewind(0)

    def resume(self, tokens: Ids) -> int:
        """Keep what `tokens` begins with, but not its last id, whose logits are wanted; returns how many are kept."""
        kept = min(_common_prefix(self.ids, tokens), len(tokens) - 1)
        if not self.recurrent:
            del self.ids[kept:]
        elif len(self.ids) > kept:
            self._rewind(kept)
        self._board.counters[Counter.CONTEXT_USED] = len(self.ids)
        return len(self.ids)

    def forward(self, block: Ids, phase: Phase) -> None:
        """Compute the rows that follow what is held, and hold them too. Raises what `Model.forward` raises."""
        self._board.counters[Counter.PHASE] = phase
        if self.recurrent and len(self.ids) - max(self._marks, default=0) >= _PASSING:
            self._marks.pop(self._passing, None)
            self.mark()
            self._passing = len(self.ids)
        try:
            self._model.forward(block, len(self.ids), phase)
        except BaseException:
            if self.recurrent:  # some layers have seen the block and others have not
                self._rewind(len(self.ids))
            raise
        self.ids.extend(block.tolist())
        self._board.counters[Counter.CONTEXT_USED] = len(self.ids)

    def mark(self) -> None:
        """Remember the state as it is now, so that the conversation can be taken up from here."""
        if not self.recurrent or not self.ids:
            return
        if self._passing == len(self.ids):  # from now on it stays
            self._passing = 0
        self._marks.pop(len(self.ids), None)
        self._marks[len(self.ids)] = self._kv.save_state()
        while len(self._marks) > MARKS:
            del self._marks[next(iter(self._marks))]

    def _rewind(self, most: int) -> None:
        """Go back to the last mark at or before `most` ids, or to the start."""
        at = max((place for place in self._marks if place <= most), default=0)
        self._marks = {place: state for place, state in self._marks.items() if place <= at}
        if self._passing not in self._marks:
            self._passing = 0
        self._kv.set_state(self._marks.get(at))
        del self.ids[at:]


def _common_prefix(held: Sequence[int], tokens: Ids) -> int:
    """How many ids two sequences share from the start."""
    count = min(len(held), len(tokens))
    different = np.flatnonzero(np.asarray(held[:count], np.int64) != tokens[:count])
    return int(different[0]) if len(different) else count
