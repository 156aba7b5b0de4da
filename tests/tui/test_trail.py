import numpy as np
import pytest

from colibri_tui.trail import WORDS, Words, read_trail
from engine.board import Board, Counter, Tier
from engine.routes import NOBODY, RING

LAYERS = np.array([1, 2])


def written(tokens: int) -> Board:
    """A board of three layers, the first without a router, after so many tokens."""
    board = Board(3, 8, 2)
    board.routes.ids[:] = NOBODY
    for n in range(tokens):
        row = n % RING
        board.routes.tokens[row] = n + 1, 100 + n
        board.routes.ids[row, 1] = n % 4, 7
        board.routes.ids[row, 2] = (n % 4 + 1, NOBODY)
        board.routes.found[row, 1:] = Tier.DISK if n % 2 else Tier.PIN
        board.routes.spent[row] = 1, 2, 3, n
        board.counters[Counter.ROUTED] += 1
    return board


@pytest.mark.parametrize("tokens", [0, 1, 5, RING, RING + 3])
def test_the_newest_tokens_are_read_oldest_first(tokens):
    trail = read_trail(written(tokens), LAYERS)
    assert len(trail) == min(tokens, RING - 1), "the next row may be about to be written"
    assert trail.numbers.tolist() == list(range(tokens - len(trail) + 1, tokens + 1))
    assert trail.ids.shape == (len(trail), 2, 2)
    assert trail.kept.tolist() == [[2, 1]] * len(trail)
    if tokens:
        assert trail.spent[-1].tolist() == [1, 2, 3, tokens - 1]


def test_rows_that_are_written_over_meanwhile_are_left_out(monkeypatch):
    board = written(RING)
    counts = iter([RING, RING + 2])

    class Moving:
        def __getitem__(self, counter):
            return next(counts)

    board.counters = Moving()
    assert read_trail(board, LAYERS).numbers.tolist() == list(range(4, RING + 1))


def test_who_called_and_who_follows():
    trail = read_trail(written(8), LAYERS)
    assert trail.callers(0, 2) == [7, 3]
    assert trail.callers(0, 5) == []
    assert trail.followers(0, 2) == [(3, 2)]
    assert trail.followers(0, 7) == [(1, 2), (2, 2), (3, 2), (4, 2)]
    assert trail.followers(1, 3) == [], "the last layer has no next one"
    assert trail.place(3) == 2
    assert trail.place(99) is None


def test_words_are_known_by_their_tokens_number():
    words = Words()
    words.begin(10)
    words.add(("Ex", "perts"))
    assert (words[11], words[12], words[13], words.last) == ("Ex", "perts", None, 12)
    words.begin(40)
    words.add(["!"] * (WORDS + 5))
    assert words[41] is None
    assert words[11] is None
    assert words[40 + WORDS + 5] == "!"
