"""Look-ahead: no token and no count depends on it; what is foreseen, read and wasted is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineOptions, Token, Turn
from engine.board import Counter, Foreseer
from engine.errors import ReadError
from engine.experts.placement import EMPTY
from engine.model.trial import SOONEST, WINDOW, WINDOWS, Looking, Trial
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

PROMPT = [(7 * n * n + 5 * n + 3) % 50 for n in range(20)]
TRIAL = 2 * WINDOW * WINDOWS
WAYS = [Foreseer.ROUTER, Foreseer.PAIRS, Foreseer.BOTH]


@pytest.fixture(autouse=True)
def _worth_foreseeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the models of these tests as if their experts were large."""
    monkeypatch.setattr("engine.experts.async_reader.SMALL", 0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 16, "num_hidden_layers": 4}
    return write(tmp_path_factory.mktemp("pilot") / "model", replace(olmoe, config=config))


class Always(Trial):
    """Looks ahead whatever the clock says."""

    def __init__(self, by: Foreseer) -> None:
        super().__init__([by])
        self.by = by

    def note(self, seconds: float) -> None:
        self.gain = 0.125


@pytest.fixture(params=WAYS, ids=lambda way: way.name.lower())
def ahead(model: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, pilot=True)) as engine:
        engine.model.trial = Always(request.param)
        yield engine


def answer(engine: Engine, tokens: int = 60) -> tuple[list[int], Turn]:
    engine.forget()
    events = list(engine.generate(PROMPT, max_tokens=tokens, ignore_eos=True))
    turn = events[-1]
    assert isinstance(turn, Turn)
    return [event.id for event in events if isinstance(event, Token)], turn


def test_guesses_change_neither_tokens_nor_hits(model: Path, ahead: Engine) -> None:
    with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, pilot=False)) as engine:
        known, turn = answer(engine)
        free = len(engine.model.placement._free)
    for _ in range(10):
        ids, looked = answer(ahead)
        assert ids == known
    assert looked.hits.total == turn.hits.total
    placement, counters = ahead.model.placement, ahead.board.counters
    assert counters[Counter.AHEAD_READS] == counters[Counter.AHEAD_USEFUL] + counters[Counter.AHEAD_WASTED] > 0
    assert counters[Counter.AHEAD_ON] == ahead.model.trial.by
    assert counters[Counter.AHEAD_GAIN] == 125
    # Every slot is an expert's or free: none was lost to a guess.
    used = placement.slot_of[placement.slot_of != EMPTY].tolist()
    assert sorted(used + placement._free) == list(range(placement.slots))
    assert len(placement._free) == free + ahead.spec.top_k


def test_small_experts_are_not_foreseen(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.experts.async_reader.SMALL", 1 << 20)
    with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, pilot=True)) as engine:
        assert engine.model.trial is None
        answer(engine)
        assert engine.board.counters[Counter.AHEAD_READS] == 0
        assert engine.board.counters[Counter.HITS_DISK] > 0


def test_a_guess_that_could_not_be_read_was_not_useful(ahead: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again, when it is needed: the answer is the same."""
    known, _ = answer(ahead)
    ahead.end_guesses()
    counters, before = ahead.board.counters, ahead.board.counters.copy()
    fetch_guess = ahead.readers.fetch_guess

    def fails(fetch: Any, slot: memoryview, begin: Any, done: Any) -> None:
        def ended(error: Any) -> None:
            done(error or ReadError("broken"))

        fetch_guess(fetch, slot, begin, ended)

    monkeypatch.setattr(ahead.readers, "fetch_guess", fails)
    with contextlib.suppress(ReadError):  # the forward came while it was read, and was told
        assert answer(ahead)[0] == known
    change = counters - before
    assert change[Counter.AHEAD_READS] == change[Counter.AHEAD_USEFUL] == change[Counter.AHEAD_WASTED] == 0


def test_threads_and_looking_ahead_are_tried_one_after_another(model: Path) -> None:
    """What is tried last would else be measured by what the other does to it."""
    with Engine.open(model, EngineOptions(cap=4, threads=2, context=256, pilot=True)) as engine:
        trial, choice = engine.model.trial, engine.model._choice
        assert trial is not None
        noted: list[tuple[bool, bool]] = []
        note = choice.note

        def slow(seconds: float, used: float) -> None:
            note(seconds, 0.5 * seconds * choice.count)  # the cores are busy, so that the other number is tried

        engine.model._choice.note = slow  # type: ignore[method-assign]
        note_trial = trial.note

        def told(seconds: float) -> None:
            noted.append((trial.under_way, choice.settled))
            note_trial(seconds)

        trial.note = told  # type: ignore[method-assign]
        for _ in range(3):
            answer(engine, 100)
        assert choice.settled
        assert noted[0] == (True, True)
        assert sum(under_way for under_way, _ in noted) == len(trial._ways) * WINDOW * WINDOWS
        assert all(settled for under_way, settled in noted if under_way)


def test_turns_hit_alike(model: Path, ahead: Engine) -> None:
    with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, pilot=False)) as engine:
        plain = [answer(engine)[1] for _ in range(2)]
    looked = [answer(ahead)[1] for _ in range(2)]  # pairs are known from the second on
    assert [turn.hits for turn in looked] == [turn.hits for turn in plain]
    wasted = int(ahead.board.counters[Counter.AHEAD_WASTED]) * ahead.info.expert_bytes
    read = int(ahead.board.counters[Counter.BYTES_READ])
    assert read == sum(turn.bytes_read for turn in plain) + wasted
    assert ahead.board.counters[Counter.AHEAD_READS] > 0


def test_a_prompt_reads_ahead_what_nearly_all_of_its_rows_will_need(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.plan.CHUNKS", (32,))
    prompt = [(7 * n) % 90 + 1 for n in range(100)]
    logits, hits, targets = [], [], []
    for pilot in (False, True):
        with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, pilot=pilot)) as engine:
            guess = engine._pilot.guess

            def noted(layer: int, experts: list[int], spare: int, guess: Any = guess) -> None:
                targets.append(layer)
                guess(layer, experts, spare)

            monkeypatch.setattr(engine._pilot, "guess", noted)
            turn = list(engine.generate(prompt, max_tokens=1, ignore_eos=True))[-1]
            assert isinstance(turn, Turn)
            logits.append(engine.logits(prompt))
            hits.append(turn.prefill_hits)
            useful = int(engine.board.counters[Counter.AHEAD_USEFUL])
            assert (useful > 0) == pilot
    assert np.array_equal(logits[0], logits[1])
    assert hits[0] == hits[1]
    assert set(targets) == {0, 1, 2, 3}  # the first layer's are the next block's


def test_recall_is_counted(model: Path) -> None:
    with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, looka=True, pilot=False)) as engine:
        answer(engine, 41)
        assert engine.board.counters[Counter.PAIRS_WANTED] == 0  # nothing is known yet
        answer(engine, 41)
        counters = engine.board.counters.copy()
        layers, top_k = len(engine.spec.moe_layers), engine.spec.top_k
    assert counters[Counter.NEXT_WANTED] == 2 * 40 * (layers - 1) * top_k
    assert counters[Counter.SECOND_WANTED] == 2 * 40 * (layers - 2) * top_k
    assert counters[Counter.PAIRS_WANTED] == 40 * (layers - 1) * top_k
    # The second answer is the first one again: who followed whom is known. By chance, a fifth.
    assert counters[Counter.PAIRS_FOUND] > 0.4 * counters[Counter.PAIRS_WANTED]
    for found in (Counter.NEXT_FOUND, Counter.SECOND_FOUND):
        # By chance, a fifth; routers of neighbouring layers are strangers in a random model.
        assert 0 < counters[found] <= counters[found + 1]
    assert counters[Counter.AHEAD_READS] == 0


def test_a_router_that_is_applied_twice_foresees_itself(tmp_path: Path) -> None:
    """Two layers that add nothing: the second router sees what the first one saw."""
    olmoe = CASES["olmoe"]
    model = write(tmp_path / "model", replace(olmoe, config={**olmoe.config, "num_experts": 16}))
    with Engine.open(model, EngineOptions(threads=1, context=64, looka=True)) as engine:
        program: Any = engine.model._ahead[Foreseer.NONE]
        plain: Any = engine.model._program
        assert len(program.ops) == len(plain.ops) + 3 * 2 + 3  # norm, router, route: two pairs, one of distance two


def run(trial: Trial, seconds: dict[Foreseer, float], tokens: int) -> None:
    for _ in range(tokens):
        trial.note(seconds[trial.by])


def test_a_trial_keeps_what_is_faster() -> None:
    for with_, expected in ((0.5, Foreseer.PAIRS), (0.99, Foreseer.NONE), (2.0, Foreseer.NONE)):
        trial = Trial([Foreseer.PAIRS])
        seconds = {Foreseer.NONE: 1.0, Foreseer.PAIRS: with_}
        run(trial, seconds, TRIAL)
        assert trial.by is expected
        assert trial.gain == pytest.approx(1 - with_)
        for _ in range(SOONEST - 1):
            trial.note(1.0)
            assert trial.by is expected
    assert Trial(WAYS).gain is None


@pytest.mark.parametrize("best", WAYS)
def test_a_trial_of_several_ways_keeps_the_best(best: Foreseer) -> None:
    trial = Trial(WAYS)
    seconds = {Foreseer.NONE: 1.0, Foreseer.ROUTER: 0.9, Foreseer.PAIRS: 0.9, Foreseer.BOTH: 0.9, best: 0.8}
    run(trial, seconds, 2 * TRIAL)
    assert trial.by is best
    assert trial.gain == pytest.approx(0.2)
    # Times change: after the rest it is tried anew.
    run(trial, {**seconds, best: 1.5}, SOONEST + 2 * TRIAL)
    assert trial.by not in (best, Foreseer.NONE)
    run(trial, dict.fromkeys(seconds, 1.0), SOONEST + 2 * TRIAL)
    assert trial.by is Foreseer.NONE


def test_a_disk_that_changes_its_speed_misleads_nobody() -> None:
    """Each way is compared with its own neighbours in time."""
    trial = Trial(WAYS)
    seconds = {Foreseer.NONE: 1.0, Foreseer.ROUTER: 0.9, Foreseer.PAIRS: 1.1, Foreseer.BOTH: 1.05}
    for token in range(2 * TRIAL):
        trial.note(seconds[trial.by] * (1 + token // (len(seconds) * WINDOW)))
    assert trial.by is Foreseer.ROUTER
    assert trial.gain == pytest.approx(0.1)


def test_a_choice_that_is_confirmed_is_tried_less_often() -> None:
    trial = Trial([Foreseer.PAIRS])
    seconds = {Foreseer.NONE: 1.0, Foreseer.PAIRS: 0.5}
    for rest in (SOONEST, 2 * SOONEST, 4 * SOONEST):
        run(trial, seconds, TRIAL)
        assert not trial.under_way
        run(trial, seconds, rest - 1)
        assert not trial.under_way
        run(trial, seconds, 1)
        assert trial.under_way


def test_the_first_token_after_a_change_does_not_count() -> None:
    trial, before = Trial([Foreseer.ROUTER]), Foreseer.NONE
    for _ in range(TRIAL):
        changed, before = trial.by != before, trial.by
        trial.note(100.0 if changed else 0.5 if trial.by else 1.0)
    assert trial.gain == pytest.approx(0.5)


def test_what_is_tried() -> None:
    assert Looking(pilot=True).ways == WAYS
    assert Looking(pilot=True, by="pairs").ways == [Foreseer.PAIRS]
    for way in WAYS:
        assert EngineOptions(pilot_by=way.name.lower()).pilot_by == way.name.lower()
