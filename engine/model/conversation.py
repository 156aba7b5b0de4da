"""The conversation a model holds: which ids its memory stands for, and how far back it can go.

Keys and values are addressed by position, so a conversation can be cut anywhere and continued. A running state
cannot: it stands for exactly the ids it has seen. Windows can as far as their rings reach: beyond that, what the
place looks back on has been overwritten. Copies of states and windows (marks) are kept; going back means to return to
the last mark before the change and to read from there.

Where there is a running state, marks are made near the end of prompts, at the end of turns and, one that moves along,
on the way. Windows need fewer: before the last prompt, to answer another one, and near its end, to answer it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, Phase
from .forward import Model
from .kv import MARKS, Copy, KVCache
from .strips import WINDOW_MARKS, Bytes

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
        self._marks: dict[int, Copy] = {}
        self._passing = 0  # where the moving mark is; 0: nowhere
        self._reach = 0  # positions below it may be stored: those of ids, and those of what they took the place of
        self._restored = 0  # rings hold what is needed from this place on only

    def forget(self) -> None:
        """Hold nothing."""
        self._marks.clear()
        self._return(0)

    def resume(self, tokens: Ids) -> int:
        """Keep what `tokens` begins with, but not its last id, whose logits are wanted; returns how many are kept."""
        kept = min(_common_prefix(self.ids, tokens), len(tokens) - 1)
        if len(self.ids) > kept:
            if self.recurrent or kept < self._lowest:
                self._return(kept)
            else:
                self._cut(kept)
        return len(self.ids)

    def forward(self, block: Ids, phase: Phase, more: bool = False) -> None:
        """Compute the rows that follow what is held, and hold them too. more, errors: as in `Model.forward`."""
        self._board.counters[Counter.PHASE] = phase
        if self.recurrent and len(self.ids) - max(self._marks, default=0) >= _PASSING:
            self._marks.pop(self._passing, None)
            self.mark()
            self._passing = len(self.ids)
        self._reach = max(self._reach, len(self.ids) + len(block))
        try:
            self._model.forward(block, len(self.ids), phase, more)
        except BaseException:
            if self.recurrent:  # some layers have seen the block and others have not
                self._return(len(self.ids))
            raise
        self.ids.extend(block.tolist())
        self._board.counters[Counter.CONTEXT_USED] = len(self.ids)

    def mark(self) -> None:
        """Remember the running state as it is now, so that the conversation can be taken up from here."""
        if self.recurrent and self.ids:
            if self._passing == len(self.ids):  # from now on it stays
                self._passing = 0
            self._keep(len(self.ids), MARKS)

    def mark_window(self, at: int) -> None:
        """Remember what windows hold at a place that has just been passed.

        A running state, which has gone on, cannot be remembered afterwards: with one, nothing happens.
        """
        if self._kv.windowed and not self.recurrent and 0 < at <= len(self.ids) and at >= self._lowest:
            self._keep(at, WINDOW_MARKS)

    # keeping it in a file

    def saved_mark(self) -> int:
        """The place before the end that is worth saving too: near the last prompt's end; 0 if there is none."""
        return max((at for at in self._marks if at < len(self.ids) and at != self._passing), default=0)

    def parts(self, mark: int) -> Iterator[Bytes]:
        """The memory behind the ids, and behind that what the mark adds, piece by piece."""
        yield from self._kv.pieces(len(self.ids))
        if mark:
            yield from self._kv.mark_pieces(mark, self._marks[mark])

    def part_bytes(self, tokens: int, mark: int) -> int:
        """Bytes of all parts of a conversation of so many tokens."""
        return self._kv.saved_bytes(tokens) + (self._kv.mark_bytes(mark) if mark else 0)

    def take_up(self, ids: Sequence[int], mark: int, fill: Callable[[Iterable[Bytes]], None]) -> None:
        """Hold other ids, with the parts that `fill` fills; nothing, if it raises."""
        self.forget()
        copy = self._kv.copy(mark) if mark else None
        try:
            fill(chain(self._kv.pieces(len(ids)), self._kv.mark_pieces(mark, copy) if copy is not None else ()))
        except BaseException:
            self.forget()
            raise
        self.ids.extend(ids)
        self._reach, self._restored = len(ids), len(ids) if self._kv.windowed else 0
        if copy is not None:
            self._marks[mark] = copy
        self.mark()
        self._board.counters[Counter.CONTEXT_USED] = len(ids)

    def _keep(self, at: int, most: int) -> None:
        self._marks.pop(at, None)
        while len(self._marks) >= most:
            del self._marks[next(iter(self._marks))]
        self._marks[at] = self._kv.copy(at)

    @property
    def _lowest(self) -> int:
        """The first place the conversation can be cut at without a mark."""
        return max(self._restored, self._kv.lowest(self._reach))

    def _cut(self, kept: int) -> None:
        """Go back to a place from where on the memory still holds all that is needed."""
        self._marks = {place: copy for place, copy in self._marks.items() if place <= kept}
        if self._passing not in self._marks:
            self._passing = 0
        del self.ids[kept:]
        self._board.counters[Counter.CONTEXT_USED] = kept

    def _return(self, most: int) -> None:
        """Go back to the last mark at or before `most` ids, or to the start."""
        at = max((place for place in self._marks if place <= most), default=0)
        self._cut(at)
        self._kv.put_back(at, self._marks.get(at))
        self._reach = self._restored = at


def _common_prefix(held: Sequence[int], tokens: Ids) -> int:
    """How many ids two sequences share from the start."""
    count = min(len(held), len(tokens))
    different = np.flatnonzero(np.asarray(held[:count], np.int64) != tokens[:count])
    return int(different[0]) if len(different) else count
