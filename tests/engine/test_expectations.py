"""What is expected of a model that nobody has loaded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Hits
from engine.expectations import (
    EFFICIENCY,
    LAYER_S,
    MISS_S,
    TOKEN_S,
    HitRate,
    Machine,
    Token,
    by_chance,
    expected,
    forecast,
    measured,
    published,
)
from engine.turn_log import LoggedTurn

MACHINE = Machine(memory=20e9, disk=2e9, direct=True)


def turn(cap: int, tokens: int, hits: Hits) -> LoggedTurn:
    return LoggedTurn(0.0, 10, tokens, hits, Hits(), 0, 0, 1.0, cap, 0, 0)


@given(st.sampled_from(["qwen3_moe", "olmoe", "gemma4_text", "unheard_of"]), st.floats(0, 1), st.floats(0, 1))
def test_more_memory_never_hits_less(family: str, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= published(family, low).value <= published(family, high).value <= 1


def test_published_values_are_met() -> None:
    assert published("qwen3_moe", 0.25) == HitRate(0.8, "published for Qwen3-235B-A22B")
    assert published("olmoe", 0.25).value == 0.46
    assert published("unheard_of", 0.25).source == "published for other models, on average"
    assert published("olmoe", 1.0) == HitRate(1.0, "every expert fits")


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_independent_choices_hit_as_often_as_is_said(skew: float) -> None:
    """A simulation of a least-recently-used cache whose experts are chosen by chance."""
    random = np.random.default_rng(7)
    experts, cap, top_k = 60, 20, 4
    weights = np.arange(1, experts + 1) ** -skew
    weights /= weights.sum()
    order: list[int] = []
    hits = total = 0
    counts = np.zeros((1, experts), np.int64)
    for token in range(4000):
        for expert in random.choice(experts, top_k, replace=False, p=weights).tolist():
            counts[0, expert] += 1
            if token > 500:
                total += 1
                hits += expert in order[-cap:]
            if expert in order:
                order.remove(expert)
            order.append(expert)
    assert by_chance(counts, cap, top_k) == pytest.approx(hits / total, abs=0.03)


def test_a_history_counts_where_it_promises_more() -> None:
    counts = np.zeros((3, 64), np.uint32)
    counts[1, :10] = 1000
    found = expected("olmoe", 12, 64, 8, counts)
    assert found.value == 1.0
    assert found.source == "from your history of 10,000 choices"
    counts[1, :] = 1000
    assert expected("olmoe", 12, 64, 8, counts).source == "published for OLMoE"


def test_turns_at_the_same_size_come_first() -> None:
    turns = [turn(12, 150, Hits(10, 60, 30)), turn(12, 150, Hits(0, 80, 20)), turn(40, 900, Hits(0, 1, 99))]
    assert measured(turns, 12) == HitRate(0.75, "measured in your last 2 turns at this size")
    assert expected("olmoe", 12, 64, 8, None, turns).value == 0.75
    assert measured(turns[:1], 12) is None
    assert expected("olmoe", 64, 64, 8, None, turns).value == 1.0


def test_the_slower_of_memory_and_disk_decides() -> None:
    second = EFFICIENCY * MACHINE.memory
    resident = forecast(Token(0.1 * second, 0, 0.2 * second, 0, 1 << 20, 10), MACHINE)
    assert resident.read_s == 0
    assert resident.tok_s == pytest.approx(1 / (0.3 + 10 * LAYER_S + TOKEN_S))
    starved = forecast(Token(0.1 * second, 0, 0.2 * second, 4, 10**9, 10), MACHINE)
    assert starved.read_s == 2.0
    assert starved.compute_s == pytest.approx(1 / resident.tok_s)
    assert starved.tok_s == pytest.approx(1 / (2.1 + 10 * LAYER_S + TOKEN_S + 4 * MISS_S))


@pytest.mark.parametrize(
    ("measured_ms", "dense", "cache", "experts", "misses", "expert", "layers", "memory", "disk"),
    [
        (24.1, 218e6, 4.2e6, 453e6, 0, 3538944, 16, 35.0e9, 2.5e9),
        (24.9, 218e6, 33.6e6, 453e6, 0, 3538944, 16, 35.3e9, 2.5e9),
        (30.9, 218e6, 134e6, 453e6, 0, 3538944, 16, 35.3e9, 2.5e9),
        (42.3, 381e6, 4.2e6, 807e6, 0, 6307840, 16, 34.2e9, 2.1e9),
        (99.5, 218e6, 4.2e6, 453e6, 45, 3538944, 16, 34.9e9, 2.16e9),
        (319.1, 381e6, 4.2e6, 807e6, 102, 6307840, 16, 35.6e9, 2.06e9),
        (444.0, 735e6, 3.1e6, 1019e6, 294, 2654208, 48, 35.2e9, 2.19e9),
    ],
)
def test_what_was_measured_is_met(
    measured_ms: float,
    dense: float,
    cache: float,
    experts: float,
    misses: float,
    expert: int,
    layers: int,
    memory: float,
    disk: float,
) -> None:
    """Random models of OLMoE's shape (int4, int8) and of Qwen3-30B's, on one machine, resident and streamed."""
    found = forecast(Token(dense, cache, experts, misses, expert, layers), Machine(memory, disk, direct=True))
    assert 1000 / found.tok_s == pytest.approx(measured_ms, rel=0.12)
