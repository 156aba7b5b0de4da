"""Stopping: within a layer, from any thread, at any time; and the turn after it is as if nothing had happened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions, Prefill, Token, Turn
from engine.board import Counter, Phase
from engine.experts.streaming import Streamer
from tests.oracle.answers import Expected, greedy
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

NAME = "olmoe"
LAYERS = 3


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected.load(NAME)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "model", CASES[NAME])


@pytest.fixture(params=[1, None])
def engine(request: pytest.FixtureRequest, folder: Path) -> Iterator[Engine]:
    with Engine.open(folder, EngineOptions(cap=request.param)) as opened:
        yield opened


def from_another_thread(engine: Engine) -> None:
    thread = threading.Thread(target=engine.stop)
    thread.start()
    thread.join()


def stopped_at(engine: Engine, prompt: list[int], kind: type, number: int) -> tuple[list[int], Turn]:
    """Run a turn and stop it from another thread at the `number`-th event of a kind. Returns its tokens and its end."""
    seen, tokens = 0, []
    for event in engine.generate(prompt, max_tokens=20, ignore_eos=True):
        if isinstance(event, Token):
            tokens.append(event.id)
        if isinstance(event, kind):
            seen += 1
            if seen == number:
                from_another_thread(engine)
        if isinstance(event, Turn):
            return tokens, event
    raise AssertionError("a turn without an end")


def test_in_the_middle_of_logits(engine: Engine, expected: Expected) -> None:
    with pytest.raises(EngineError, match="stopped before the logits were computed"):
        engine.logits(expected.prompt, on_route=lambda *_: engine.stop())
    assert engine.board.counters[Counter.PHASE] == Phase.IDLE
    np.testing.assert_allclose(engine.logits(expected.prompt), expected.answer.logits, atol=1e-3)


def test_before_the_first_block(engine: Engine, expected: Expected) -> None:
    tokens, end = stopped_at(engine, expected.prompt, Prefill, 1)
    assert (tokens, end.tokens, end.stop) == ([], 0, "user")
    assert end.prefill_hits.total == 0
    assert greedy(engine, expected.prompt, 8) == expected.answer.greedy[:8]


def test_between_the_blocks_of_a_prompt(folder: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.plan.CHUNKS", (5,))
    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        tokens, end = stopped_at(engine, expected.prompt, Prefill, 3)
        assert (tokens, end.stop) == ([], "user")
        assert engine.board.counters[Counter.CONTEXT_USED] == 10
        events = list(engine.generate(expected.prompt, max_tokens=8, ignore_eos=True))
        # The ten tokens that were read before the stop are still there.
        assert events[0] == Prefill(0, 14)
        assert [event.id for event in events if isinstance(event, Token)] == expected.answer.greedy[:8]


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 11])
def test_within_a_forward(folder: Path, expected: Expected, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while a layer's experts stream: that layer ends, no other begins."""
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        calls = 0
        run = Streamer.run

        def counting(self: Streamer, *arguments: object) -> None:
            nonlocal calls
            calls += 1
            if calls == call:
                from_another_thread(engine)
            run(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Streamer, "run", counting)
        events = list(engine.generate(expected.prompt, max_tokens=20, ignore_eos=True))
        assert isinstance(events[-1], Turn)
        assert events[-1].stop == "user"
        # In a forward's last layer there is nothing left to leave out: the token it was for may still come.
        in_last_layer = call % LAYERS == 0
        assert calls == call
        assert events[-1].tokens == (call - 1) // LAYERS + in_last_layer
        monkeypatch.setattr(Streamer, "run", run)
        assert greedy(engine, expected.prompt, 8) == expected.answer.greedy[:8]


def test_a_fork_that_was_stopped_does_not_spoil_what_it_forked_from(
    folder: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped half-way through layers that have overwritten the conversation's keys and values."""
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        said = greedy(engine, expected.prompt, 8)
        run = Streamer.run

        def stopping(self: Streamer, *arguments: object) -> None:
            engine.stop()
            run(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Streamer, "run", stopping)
        fork = [*expected.prompt[:5], *(130 - n for n in range(40))]
        events = list(engine.generate(fork, max_tokens=2))
        assert isinstance(events[-1], Turn)
        assert events[-1].stop == "user"
        monkeypatch.setattr(Streamer, "run", run)
        assert greedy(engine, [*expected.prompt, *said], 6) == expected.answer.greedy[8:14]


@pytest.mark.parametrize("number", [1, 4])
def test_while_answering(engine: Engine, expected: Expected, number: int) -> None:
    tokens, end = stopped_at(engine, expected.prompt, Token, number)
    assert tokens == expected.answer.greedy[:number]
    assert (end.tokens, end.stop) == (number, "user")
    assert engine.board.counters[Counter.PHASE] == Phase.IDLE
    assert greedy(engine, [*expected.prompt, *tokens], 4) == expected.answer.greedy[number : number + 4]


def test_a_stop_without_a_turn_is_forgotten(engine: Engine, expected: Expected) -> None:
    engine.stop()
    assert greedy(engine, expected.prompt, 4) == expected.answer.greedy[:4]
    engine.stop()
    assert engine.logits(expected.prompt).shape == expected.answer.logits.shape


def test_while_a_long_prompt_is_computed(folder: Path) -> None:
    """A stop that comes whenever it comes: the turn ends at once, far from the end of the prompt."""
    with Engine.open(folder, EngineOptions(cap=1, context=4096)) as engine:
        counters = engine.board.counters

        def stop_when_under_way() -> None:
            while counters[Counter.PREFILL_DONE] < 256:
                if finished.wait(0.0005):
                    return
            engine.stop()

        finished = threading.Event()
        thread = threading.Thread(target=stop_when_under_way)
        thread.start()
        try:
            events = list(engine.generate([n % 131 for n in range(4000)], max_tokens=1, ignore_eos=True))
        finally:
            finished.set()
            thread.join()
        assert isinstance(events[-1], Turn)
        assert (events[-1].stop, events[-1].tokens) == ("user", 0)
        assert 256 <= counters[Counter.CONTEXT_USED] < 4000
