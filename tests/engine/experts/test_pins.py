"""Which experts are pinned, and how many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experts.pins import SELECTIONS_FULL, SELECTIONS_MIN, pin_slots, rank


def test_the_most_often_chosen_come_first() -> None:
    counts = np.array([[5, 0, 7], [7, 9, 1], [99, 99, 99]], np.uint32)
    assert rank(counts, (0, 1)) == [(1, 1), (0, 2), (1, 0), (0, 0), (1, 2)]


def test_counts_near_the_limit_are_ranked() -> None:
    assert rank(np.array([[1, 2**32 - 1, 2**31]], np.uint32), (0,)) == [(0, 1), (0, 2), (0, 0)]


@pytest.mark.parametrize(
    ("selections", "pins"),
    [(0, 0), (SELECTIONS_MIN - 1, 0), (20_000, 50), (SELECTIONS_FULL, 500), (10 * SELECTIONS_FULL, 500)],
)
def test_half_of_the_slots_as_far_as_the_history_can_be_trusted(selections: int, pins: int) -> None:
    assert pin_slots(1000, 100, 16, selections, None) == pins


def test_the_cache_keeps_its_reserve() -> None:
    assert pin_slots(1000, 700, 16, SELECTIONS_FULL, None) == 300
    assert pin_slots(1000, 700, 16, SELECTIONS_FULL, math.inf) == 300
    assert pin_slots(100, 128, 16, SELECTIONS_FULL, math.inf) == 0


def test_fewer_than_one_a_layer_are_not_worth_it() -> None:
    assert pin_slots(30, 0, 16, SELECTIONS_FULL, None) == 0
    assert pin_slots(32, 0, 16, SELECTIONS_FULL, None) == 16


def test_what_a_person_asks_for_replaces_the_rule() -> None:
    assert pin_slots(1000, 100, 16, SELECTIONS_MIN, 250.9) == 250
    assert pin_slots(1000, 100, 16, None, None) == 500


@given(
    available=st.integers(0, 5000), reserve=st.integers(0, 5000), layers=st.integers(1, 99),
    selections=st.none() | st.integers(0, 10**6), wanted=st.none() | st.floats(0, math.inf),
)  # fmt: skip
def test_pins_and_reserve_never_exceed_what_there_is(
    available: int, reserve: int, layers: int, selections: int | None, wanted: float | None
) -> None:
    pins = pin_slots(available, reserve, layers, selections, wanted)
    assert pins == 0 or (pins >= layers and pins + reserve <= available)
