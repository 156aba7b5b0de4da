"""Sampling: greedy, temperature, nucleus, repetition penalty; reproducible; broken logits refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.text import Sampler, Sampling
from engine.text.sampler import REPETITION_WINDOW

Logits = npt.NDArray[np.float32]


def logits(*values: float) -> Logits:
    return np.array(values, np.float32)


def draws(sampling: Sampling, values: Logits, count: int = 400) -> Counter[int]:
    sampler = Sampler(sampling)
    return Counter(sampler.sample(values, []) for _ in range(count))


def random_logits(size: int, spread: float = 4.0, seed: int = 0) -> Logits:
    return (np.random.default_rng(seed).normal(size=size) * spread).astype(np.float32)


def test_greedy_takes_the_lowest_id_of_the_largest() -> None:
    assert Sampler(Sampling(temperature=0.0)).sample(logits(1, 3, 2, 3), []) == 1


def test_the_same_seed_gives_the_same_tokens() -> None:
    values = random_logits(1000)
    first, again, other = (
        [sampler.sample(values, []) for _ in range(30)]
        for sampler in (Sampler(Sampling(seed=7)), Sampler(Sampling(seed=7)), Sampler(Sampling(seed=8)))
    )
    assert first == again != other


def test_without_a_seed_answers_differ() -> None:
    values = np.zeros(100_000, np.float32)
    assert Sampler(Sampling(nucleus=1.0)).sample(values, []) != Sampler(Sampling(nucleus=1.0)).sample(values, [])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_temperature_makes_them_probable(temperature: float) -> None:
    values = logits(2.0, 1.0, 0.0, -1.0)
    probabilities = np.exp(values / temperature) / np.exp(values / temperature).sum()
    counts = draws(Sampling(temperature=temperature, nucleus=1.0, seed=1), values, 4000)
    for token, probability in enumerate(probabilities):
        assert abs(counts[token] / 4000 - probability) < 4 * np.sqrt(probability / 4000)


@given(
    seed=st.integers(0, 2**31),
    size=st.sampled_from([1, 2, 50, 1023, 1024, 1025, 5000]),
    spread=st.sampled_from([0.0, 0.001, 0.3, 1.0, 4.0, 30.0]),
    steps=st.sampled_from([0, 3]),
    nucleus=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99]),
)
def test_every_token_comes_from_the_nucleus(seed: int, size: int, spread: float, steps: int, nucleus: float) -> None:
    values = random_logits(size, spread, seed)
    if steps:
        values = np.round(values * steps).astype(np.float32) / np.float32(steps)  # many ties
    weights = np.exp(values.astype(np.float64) - values.max())
    order = np.argsort(-weights, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]]) / weights.sum()
    rank = {int(token): i for i, token in enumerate(order)}
    sampler = Sampler(Sampling(temperature=1.0, nucleus=nucleus, seed=seed))
    for _ in range(5):
        assert before[rank[sampler.sample(values, [])]] <= nucleus + 1e-5


def test_the_whole_nucleus_is_used_and_nothing_else() -> None:
    values = np.log(logits(0.05, 0.4, 0.3, 0.2, 0.05))
    assert set(draws(Sampling(temperature=1.0, nucleus=0.8, seed=1), values)) == {1, 2, 3}
    assert set(draws(Sampling(temperature=1.0, nucleus=0.0, seed=1), values)) == {1}
    assert set(draws(Sampling(temperature=1.0, nucleus=1.0, seed=1), values)) == {0, 1, 2, 3, 4}


def test_of_equal_tokens_the_lower_ids_are_in_the_nucleus() -> None:
    assert set(draws(Sampling(temperature=1.0, nucleus=0.5, seed=1), logits(*[1.0] * 8))) == {0, 1, 2, 3}


def test_a_flat_large_vocabulary() -> None:
    counts = draws(Sampling(temperature=1.0, nucleus=0.5, seed=1), np.zeros(20_000, np.float32), 200)
    assert max(counts) < 10_000
    assert min(counts) < 1000
    assert max(counts) > 9000


def test_masked_tokens_never_come() -> None:
    values = logits(-np.inf, 0.0, -np.inf, 0.0)
    assert set(draws(Sampling(temperature=5.0, nucleus=1.0, seed=1), values)) == {1, 3}
    assert set(draws(Sampling(temperature=5.0, nucleus=0.99, seed=1), values)) == {1, 3}


@pytest.mark.parametrize("temperature", [1e-30, 1e-9, 100.0])
def test_extreme_temperatures(temperature: float) -> None:
    values = logits(1000.0, -1000.0, 999.0)
    counts = draws(Sampling(temperature=temperature, nucleus=1.0, seed=1), values)
    assert counts[0] == 400 or (temperature == 100.0 and set(counts) == {0, 2})


def test_the_repetition_penalty_works_on_both_signs() -> None:
    greedy = Sampler(Sampling(temperature=0.0, repetition=2.0))
    assert greedy.sample(logits(3.0, 2.0), [0]) == 1
    assert greedy.sample(logits(3.0, 1.0), [0]) == 0
    assert greedy.sample(logits(-1.0, -1.5), [0]) == 1
    assert greedy.sample(logits(-1.0, -2.5), [0, 0, 0]) == 0


def test_the_repetition_penalty_looks_at_the_latest_ids_only() -> None:
    greedy = Sampler(Sampling(temperature=0.0, repetition=2.0))
    old = [0, *[2] * REPETITION_WINDOW]
    assert greedy.sample(logits(3.0, 2.0, 1.0), old) == 0
    assert greedy.sample(logits(3.0, 2.0, 1.0), old[:-1]) == 1


def test_ids_outside_the_vocabulary_do_not_matter_and_logits_are_left_alone() -> None:
    values = logits(3.0, 2.0)
    values.flags.writeable = False
    assert Sampler(Sampling(temperature=0.0, repetition=2.0)).sample(values, [-1, 2, 10**12, 0]) == 1
    assert Sampler(Sampling(temperature=0.5, repetition=2.0, seed=1)).sample(values, []) in (0, 1)
    assert values.tolist() == [3.0, 2.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("recent", [[], [1]])
def test_broken_logits_are_refused(bad: float, temperature: float, recent: list[int]) -> None:
    sampler = Sampler(Sampling(temperature=temperature, repetition=1.1))
    with pytest.raises(EngineError, match="logit of token 1"):
        sampler.sample(logits(1.0, bad, 2.0), recent)


def test_logits_that_exclude_every_token_are_refused() -> None:
    with pytest.raises(EngineError, match="-inf"):
        Sampler(Sampling()).sample(logits(-np.inf, -np.inf), [])


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"nucleus": 1.1},
        {"nucleus": -0.1},
        {"repetition": 0.0},
        {"max_tokens": 0},
        {"seed": -1},
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(EngineError, match="sampling: " + next(iter(values)).replace("_", " ")):
        Sampling(**values)  # type: ignore[arg-type]
