"""The exchange of pinned experts: colibrì's rules and check values."""

from __future__ import annotations

import numpy as np
import pytest

from engine.board import Board
from engine.experts.repin import Repinner, Swap, pick_swap, pick_swap_lfru

Swaps = list[tuple[int, Swap]]


def flags(count: int, *which: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.isin(np.arange(count), which)


def test_check_values() -> None:
    swap = pick_swap(np.array([20, 2, 8, 3, 30, 1]), flags(6, 0, 1))
    assert swap == Swap(1, 4, 2, 30)
    assert swap.heat - swap.out_heat == 28
    assert pick_swap(np.array([20, 18, 24, 4]), flags(4, 0, 1)) is None
    heat, last_use = np.array([10, 10, 2, 18, 18]), np.array([10, 90, 95, 20, 99])
    assert pick_swap_lfru(heat, 100 - last_use, flags(5, 0, 1)) == Swap(0, 4, 10, 18)


@pytest.mark.parametrize(("heat", "swapped"), [(4, False), (5, True)])
def test_the_cold_one_goes_for_one_clearly_hotter(heat: int, swapped: bool) -> None:
    assert (pick_swap(np.array([0, heat]), flags(2, 0)) is not None) == swapped


@pytest.mark.parametrize(("heat", "swapped"), [(24, False), (25, True)])
def test_the_margin_grows_with_the_heat(heat: int, swapped: bool) -> None:
    """17 + 17 / 4 + 4 = 25 in whole numbers; 16 + 4 + 4 = 24."""
    assert (pick_swap(np.array([16, heat]), flags(2, 0)) is not None) == swapped
    assert pick_swap(np.array([17, 25]), flags(2, 0)) is None


def test_first_ones_win_on_ties_and_nothing_cold_is_pinned() -> None:
    assert pick_swap(np.array([3, 3, 50, 50]), flags(4, 0, 1)) == Swap(0, 2, 3, 50)
    assert pick_swap(np.array([0, 0, 0]), flags(3, 0)) is None
    assert pick_swap(np.array([5, 6]), flags(2)) is None
    assert pick_swap(np.array([5, 6]), flags(2, 0, 1)) is None


class Chat:
    """A board of six layers, expert 0 of each pinned."""

    def __init__(self, every: int) -> None:
        self.board = Board(6, 4)
        self.board.heat[:] = 1000  # history
        self.repinner = Repinner(self.board, every, lfru=False)
        self.pinned = np.tile(flags(4, 0), (6, 1))

    def turn(self, heat: dict[tuple[int, int], int], tokens: int) -> Swaps:
        for where, count in heat.items():
            self.board.heat[where] += count
        return list(self.repinner.swaps(tokens, 1, self.pinned))


def test_a_pass_makes_four_swaps_one_a_layer_the_greatest_gains_first() -> None:
    heat = {(layer, expert): 10 * layer + 10 + expert for layer in range(6) for expert in (1, 2)}
    swaps = Chat(every=1).turn(heat, tokens=1)
    assert [layer for layer, _ in swaps] == [5, 4, 3, 2]
    assert {swap.expert for _, swap in swaps} == {2}


def test_the_history_does_not_count_and_is_not_touched() -> None:
    chat = Chat(every=1)
    before = chat.board.heat.copy()
    assert chat.turn({}, tokens=5) == []
    assert (chat.board.heat == before).all()


def test_a_pass_comes_every_so_many_tokens() -> None:
    chat = Chat(every=100)
    assert chat.turn({(0, 1): 9}, tokens=60) == []
    assert len(chat.turn({}, tokens=60)) == 1
    assert chat.turn({(0, 2): 99}, tokens=60) == []


def test_heat_is_halved_after_each_pass_even_if_nothing_was_swapped() -> None:
    """4 and 4 more would be 8; 4 / 2 + 4 is 6 > 4, and 4 / 2 / 2 + 3 is 4."""
    chat = Chat(every=1)
    assert chat.turn({(0, 1): 4}, tokens=1) == []
    assert chat.turn({(0, 2): 1}, tokens=1) == []
    assert chat.turn({(0, 1): 3}, tokens=1) == []
    assert [swap for _, swap in chat.turn({(0, 1): 4}, tokens=1)] == [Swap(0, 1, 0, 6)]


def test_after_another_history_was_loaded_only_what_is_new_counts() -> None:
    chat = Chat(every=1)
    chat.board.heat[:] = 5000
    chat.repinner.restart()
    assert chat.turn({(2, 3): 5}, tokens=1) == [(2, Swap(0, 3, 0, 5))]
