"""Cache policies: what they must never do, and what each of them is known for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.experts.policies import NEAR, POLICIES, State, forwards, make_state
from engine.experts.policies.auto import MIX
from engine.experts.policies.state import LEADER

Flags = npt.NDArray[np.bool_]
Forward = list[list[int]]

EXPERTS = 8
LONG = [blend for blend, mix in enumerate(MIX) if mix[3] > 0]
"""Blends of `auto` that look back a thousand tokens."""


@st.composite
def told_forwards(draw: st.DrawFn) -> list[Forward]:
    """Forwards of one to five tokens, each of which chooses one to four of EXPERTS."""
    token = st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=4, unique=True)
    return draw(st.lists(st.lists(token, min_size=1, max_size=5), min_size=1, max_size=30))


def tell(
    policy: str,
    state: State,
    rows: Forward,
    held: Flags,
    pinned: Flags,
    cap: int,
    before: Forward | None = None,
) -> None:
    """Tell a policy of a forward. before: what the rows chose in the layer before."""
    ids = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, chosen in enumerate(rows):
        ids[row, : len(chosen)] = chosen
    kept = np.array([len(chosen) for chosen in rows], np.int32)
    near = np.full((len(rows), NEAR, 4), -1, np.int32)
    for row, chosen in enumerate(before or []):
        near[row, -1, : len(chosen)] = chosen
    forwards(POLICIES[policy], state, ids, kept, near, 0, held, pinned, cap)


def remaining(policy: str, tokens: list[list[int]], cap: int) -> set[int]:
    """Who is in a cache after some tokens."""
    state, held, pinned = make_state(policy, EXPERTS), np.zeros(EXPERTS, np.bool_), np.zeros(EXPERTS, np.bool_)
    for chosen in tokens:
        tell(policy, state, [chosen], held, pinned, cap)
    return set(np.flatnonzero(held).tolist())


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=40)
@given(told=told_forwards(), cap=st.integers(1, EXPERTS), pins=st.sets(st.integers(0, EXPERTS - 1), max_size=3))
def test_a_cache_is_full_and_no_fuller(policy: str, told: list[Forward], cap: int, pins: set[int]) -> None:
    """Pinned experts stay; of the others those stay that were there or are needed, and as many as there is room for."""
    pinned = np.isin(np.arange(EXPERTS), list(pins))
    state, held = make_state(policy, EXPERTS), pinned.copy()
    for rows in told:
        before = held.copy()
        needed = np.isin(np.arange(EXPERTS), [expert for chosen in rows for expert in chosen])
        tell(policy, state, rows, held, pinned, cap)
        assert held[pinned].all()
        assert not (held & ~before & ~needed).any()
        assert np.count_nonzero(held & ~pinned) == min(cap, np.count_nonzero((before | needed) & ~pinned))


@pytest.mark.parametrize("policy", POLICIES)
def test_who_is_used_all_the_time_stays(policy: str) -> None:
    """Experts 0 and 1 with every token, the others in turn."""
    tokens = [[0, 1, 2 + number % 6] for number in range(60)]
    assert remaining(policy, tokens, 3) >= {0, 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_leaves_while_there_is_room(policy: str) -> None:
    assert remaining(policy, [[0, 3], [5], [3, 6], [5, 7]], 5) == {0, 3, 5, 6, 7}


def test_lru_keeps_the_last_and_of_one_token_the_strongest() -> None:
    assert remaining("lru", [[0], [1], [2], [0], [3]], 2) == {0, 3}
    assert remaining("lru", [[5, 2, 7, 1]], 2) == {5, 2}
    assert remaining("lru", [[5, 2], [7, 1, 5]], 3) == {7, 1, 5}


def test_lfu_keeps_old_fame() -> None:
    assert remaining("lfu", [[0]] * 9 + [[1], [2]] * 4, 2) == {0, 2}


def test_lfuda_outlives_old_fame() -> None:
    """What LFU would keep for ever goes once enough of the cache has turned over."""
    tokens = [[0]] * 40 + [[1 + number % 7] for number in range(70)]
    assert 0 in remaining("lfu", tokens, 2)
    assert 0 not in remaining("lfuda", tokens, 2)


def test_lfuda_remembers_who_left() -> None:
    """Expert 0 had a name before it left; it comes back ahead of one that is as recent."""
    tokens = [[0]] * 5 + [[1], [2], [1], [2], [3], [4], [0], [5]]
    assert 0 in remaining("lfuda", tokens, 2)


def test_lfru_breaks_ties_by_recency() -> None:
    assert remaining("lfru", [[0], [1], [2], [0], [1], [2]], 2) == {1, 2}
    assert remaining("lfru", [[0], [0], [0], [1], [2]], 2) == {0, 2}


def test_clock_gives_the_used_another_round() -> None:
    """Expert 0 is the oldest, but was used again; 1 was not."""
    assert remaining("clock", [[0], [1], [0], [2]], 2) == {0, 2}
    assert remaining("lru", [[0], [1], [2]], 2) == remaining("clock", [[0], [1], [2]], 2) == {1, 2}


def test_s3fifo_lets_a_scan_pass() -> None:
    """Two experts used again and again are not driven out by others that are used once."""
    tokens = [[0], [1]] * 6 + [[2], [3], [4], [5], [6], [7]]
    assert remaining("s3fifo", tokens, 3) >= {0, 1}
    assert not remaining("lru", tokens, 3) & {0, 1}


def test_streak_keeps_the_hot_until_they_went_cold() -> None:
    hot = [[0]] * 5
    others = [[1 + number % 3] for number in range(30)]
    assert 0 in remaining("streak", hot + others[:19], 2)
    assert 0 not in remaining("streak", hot + others[:25], 2)
    assert 0 not in remaining("streak", hot[:4] + others[:5], 2)


def hits(policy: str, tokens: list[list[int]], cap: int, before: list[list[int]] | None = None) -> int:
    """How many choices are found in a cache. before: what the tokens chose in the layer before."""
    state, held, pinned = make_state(policy, EXPERTS), np.zeros(EXPERTS, np.bool_), np.zeros(EXPERTS, np.bool_)
    found = 0
    for number, chosen in enumerate(tokens):
        found += int(held[chosen].sum())
        tell(policy, state, [chosen], held, pinned, cap, before and [before[number]])
    return found


def test_auto_is_as_good_as_the_policy_that_is_right() -> None:
    """Where the same few experts come back at long intervals that is LFU, where the topic jumps LRU."""
    draw = np.random.default_rng(1)
    weights = np.array([30, 20, 10, 1, 1, 1, 1, 1]) / 65
    steady = [draw.choice(EXPERTS, 2, replace=False, p=weights).tolist() for _ in range(1500)]
    jumping = [[number // 40 % EXPERTS, (number // 40 + 1 + number % 2) % EXPERTS] for number in range(1500)]
    assert hits("auto", steady, 3) > 0.98 * hits("lfu", steady, 3) > 1.02 * hits("lru", steady, 3)
    assert hits("auto", jumping, 3) > 0.98 * hits("lru", jumping, 3) > 1.02 * hits("lfu", jumping, 3)


def test_auto_changes_its_mind() -> None:
    """Nothing can be learned of experts that are drawn by lot: a blend that looks back far takes over."""
    draw = np.random.default_rng(1)
    weights = np.array([60, 40, 20, 10, 1, 1, 1, 1]) / 134
    state, held, pinned = make_state("auto", EXPERTS), np.zeros(EXPERTS, np.bool_), np.zeros(EXPERTS, np.bool_)
    leaders = set()
    for _ in range(3000):
        tell("auto", state, [draw.choice(EXPERTS, 1, p=weights).tolist()], held, pinned, 2)
        leaders.add(int(state.counts[LEADER]))
    assert leaders & set(LONG)


def test_auto_learns_from_the_layer_before() -> None:
    """What a layer needs next is what the layer before it chose for this token: it is kept, if it is there."""
    draw = np.random.default_rng(3)
    before = [draw.choice(EXPERTS, 2, replace=False).tolist() for _ in range(1500)]
    tokens = [[(before[number - 1][0] + 3) % EXPERTS] for number in range(1500)]
    blind = hits("auto", tokens, 3)
    assert hits("auto", tokens, 3, before) > 1.08 * blind


def test_auto_learns_what_follows() -> None:
    """Experts come in pairs, the pairs in no order: whose partner was just chosen is worth keeping."""
    draw = np.random.default_rng(0)
    tokens = [[2 * pair + half] for pair in draw.integers(0, EXPERTS // 2, 700).tolist() for half in (0, 1)]

    assert hits("auto", tokens, 5) > 1.1 * max(hits(policy, tokens, 5) for policy in POLICIES if policy != "auto")
