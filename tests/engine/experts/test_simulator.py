"""Replays of traces: the optimum is one, and the other figures."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.experts.policies import POLICIES
from engine.experts.simulator import (
    AGAIN,
    HIT,
    MISS,
    OPTIMUM,
    Outcome,
    gap_share,
    optimum,
    replay,
    replay_all,
    replay_steps,
)
from engine.experts.trace_reader import LayerTrace

EXPERTS = 5
token = st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=3, unique=True)
chats = st.lists(st.lists(token, min_size=1, max_size=3), min_size=1, max_size=9)


def layer_of(forwards: list[list[list[int]]]) -> LayerTrace:
    tokens = [chosen for forward in forwards for chosen in forward]
    return LayerTrace(
        EXPERTS,
        np.cumsum([0, *map(len, forwards)]),
        np.cumsum([0, *map(len, tokens)]),
        np.array([expert for chosen in tokens for expert in chosen], np.int32),
    )


def best_of_all(forwards: list[list[list[int]]], cap: int) -> int:
    """Hits of the best of all ways to keep experts, by trying every one."""
    needs = [frozenset(expert for chosen in forward for expert in chosen) for forward in forwards]

    @cache
    def hits(at: int, held: frozenset[int]) -> int:
        if at == len(needs):
            return 0
        have = held | needs[at]
        kept = combinations(sorted(have), min(cap, len(have)))
        return len(held & needs[at]) + max(hits(at + 1, frozenset(stay)) for stay in kept)

    return hits(0, frozenset())


@settings(deadline=None, max_examples=60)
@given(forwards=chats, cap=st.integers(1, EXPERTS))
def test_the_optimum_is_the_best_of_all_ways(forwards: list[list[list[int]]], cap: int) -> None:
    layer = layer_of(forwards)
    best = optimum(layer, cap)
    assert best.hits + best.prefill_hits == best_of_all(forwards, cap)
    for policy in POLICIES:
        outcome = replay(layer, policy, cap)
        assert sum(outcome) == sum(best)
        assert outcome.hits + outcome.prefill_hits <= best.hits + best.prefill_hits


def test_prefill_is_counted_apart_and_once_an_expert() -> None:
    layer = layer_of([[[0, 1], [0, 2]], [[0]], [[3]], [[3, 4], [0, 3]]])
    assert replay(layer, "lru", 5) == Outcome(hits=1, misses=1, prefill_hits=2, prefill_misses=4)


def test_pinned_experts_are_always_there_and_take_no_slot() -> None:
    layer = layer_of([[[0]], [[1]], [[2]], [[0]], [[1]]])
    pinned = np.array([True, False, False, False, False])
    assert replay(layer, "lru", 1, pinned) == Outcome(2, 3, 0, 0)
    assert replay(layer, "lru", 2, pinned) == Outcome(3, 2, 0, 0)


def test_a_table_of_replays() -> None:
    layers = {3: layer_of([[[0]], [[1]], [[0]]]), 7: layer_of([[[2]], [[2]]])}
    table = replay_all(layers, ["lru", "min"], [1, 2])
    assert table[3, "lru", 1].hits == 0
    assert table[3, "lru", 2].hits == table[3, "min", 1].hits == table[7, "lru", 1].hits == 1
    assert len(table) == 8


def test_the_share_of_the_gap() -> None:
    lru, best = Outcome(10, 90, 0, 0), Outcome(50, 50, 0, 0)
    assert gap_share(Outcome(20, 80, 0, 0), lru, best) == pytest.approx(0.25)
    assert gap_share(Outcome(5, 95, 0, 0), lru, best) == pytest.approx(-0.125)
    assert gap_share(best, best, best) is None


@settings(deadline=None, max_examples=60)
@given(
    forwards=chats,
    policy=st.sampled_from([*POLICIES, OPTIMUM]),
    cap=st.integers(1, EXPERTS),
    pins=st.sets(st.integers(0, EXPERTS - 1)),
)
def test_steps_tell_who_is_held_at_every_look_up(
    forwards: list[list[list[int]]], policy: str, cap: int, pins: set[int]
) -> None:
    layer = layer_of(forwards)
    pinned = np.isin(np.arange(EXPERTS), list(pins))
    steps = replay_steps(layer, policy, cap, pinned)
    if policy == OPTIMUM:
        assert pins or steps.outcome == optimum(layer, cap)
    else:
        assert steps.outcome == replay(layer, policy, cap, pinned)
    held, found, at = set(pins), steps.found.tolist(), 0
    counts = {True: [0, 0], False: [0, 0]}
    for forward, chosen in enumerate(forwards):
        needed: set[int] = set()
        for token in chosen:
            for expert in token:
                told = found[at]
                assert told == (AGAIN if expert in needed else HIT if expert in held else MISS)
                counts[len(chosen) == 1][told == MISS] += told != AGAIN
                needed.add(expert)
                held.add(expert)
                at += 1
        left = set(steps.left[steps.ends[forward] : steps.ends[forward + 1]].tolist())
        assert left <= held - pins
        held -= left
        assert len(held - pins) <= cap
    assert Outcome(*counts[True], *counts[False]) == steps.outcome
