"""The last tokens' ways through the layers, as a screen reads them, and the words they stood for. Knows no screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.board import Board, Counter
from engine.routes import NOBODY, RING

WORDS: int = 4 * RING
"""Words that are kept; there are no ways for older tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """The last tokens, oldest first; layers without a router left out. See `engine.routes.Routes`.

    numbers int64 [tokens]: each one's number among all tokens generated since the model was loaded. ids int16, gates
    float32, found uint8 [tokens, layers, k]. layer_ms, wait_ms float32 [tokens, layers]. spent float32 [tokens, Part].
    """

    numbers: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int16]
    gates: npt.NDArray[np.float32]
    found: npt.NDArray[np.uint8]
    layer_ms: npt.NDArray[np.float32]
    wait_ms: npt.NDArray[np.float32]
    spent: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def kept(self) -> npt.NDArray[np.int64]:
        """How many experts each token used in each layer, [tokens, layers]."""
        counts: npt.NDArray[np.int64] = np.count_nonzero(self.ids != NOBODY, axis=2)
        return counts

    def place(self, number: int) -> int | None:
        """Return where a token's row is, None if it is not remembered."""
        found = np.flatnonzero(self.numbers == number)
        return int(found[0]) if len(found) else None

    def callers(self, layer: int, expert: int) -> list[int]:
        """Return the numbers of the tokens that used an expert, newest first. layer: index into the layers here."""
        used = (self.ids[:, layer] == expert).any(axis=1)
        return [int(number) for number in self.numbers[used][::-1]]

    def followers(self, layer: int, expert: int) -> list[tuple[int, int]]:
        """Return (expert of the next layer, times) for the tokens that used this one, the most frequent first."""
        if layer + 1 >= self.ids.shape[1]:
            return []
        used = (self.ids[:, layer] == expert).any(axis=1)
        chosen, counts = np.unique(self.ids[used, layer + 1], return_counts=True)
        pairs = [(int(e), int(n)) for e, n in zip(chosen, counts, strict=True) if e != NOBODY]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def read_trail(board: Board, layers: npt.NDArray[np.intp], last: int = RING) -> Trail:
    """Copy the last rows of a board; what the engine writes over meanwhile is left out."""
    end = int(board.counters[Counter.ROUTED])
    numbers = np.arange(max(0, end - min(last, RING)), end)
    rows, routes = numbers % RING, board.routes
    copies = (
        routes.tokens[rows, 0],
        *(values[rows[:, None], layers] for values in (routes.ids, routes.gates, routes.found)),
        *(values[rows[:, None], layers] for values in (routes.layer_ms, routes.wait_ms)),
        routes.spent[rows],
    )
    sound = numbers > int(board.counters[Counter.ROUTED]) - RING
    return Trail(*(values[sound] for values in copies))


class Words:
    """The text of the tokens generated last, by their number among all tokens since the model was loaded."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._next = 1

    def begin(self, tokens: int) -> None:
        """A turn begins after so many tokens."""
        self._next = tokens + 1

    def add(self, pieces: Sequence[str]) -> None:
        """More tokens were generated."""
        for text in pieces:
            self._texts[self._next] = text
            self._next += 1
        for number in list(self._texts)[: max(0, len(self._texts) - WORDS)]:
            del self._texts[number]

    def __getitem__(self, number: int) -> str | None:
        """Return a token's text, None if it is not known."""
        return self._texts.get(number)

    @property
    def last(self) -> int:
        """Number of the newest token; 0 before the first."""
        return self._next - 1
