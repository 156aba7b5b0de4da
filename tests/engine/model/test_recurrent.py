"""Models with a running state, which cannot be cut back, and with windows: conversations go as if read afresh.

`tests.oracle` says that the answers are right; here they are compared with each other, and how much is read again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from engine import Engine, EngineOptions, Prefill, Token, Turn
from engine.experts.streaming import Streamer
from engine.model.kv import MARKS
from tests.oracle.answers import greedy
from tests.oracle.checkpoints import Folder

RECURRENT = ["qwen3_next-long", "qwen3_5_moe-long", "lfm2_moe-long"]
WINDOWED = ["gpt_oss-long", "gemma4"]
MODELS = [*RECURRENT, *WINDOWED]

TAIL = 8
"""What a model with a running state reads again of a prompt that it has answered."""

PROMPT = 90
REPLY = [5, 17, 23, 4, 31, 9, 60, 2, 44, 71, 13]


def prompt_of(tokens: int = PROMPT) -> list[int]:
    """Any prompt that does not repeat soon."""
    return [(11 * n * n + 3 * n + 1) % 103 for n in range(tokens)]


@pytest.fixture(params=[1, None], ids=["one slot", "all resident"])
def options(request: pytest.FixtureRequest) -> EngineOptions:
    return EngineOptions(cap=request.param)


def afresh(folder: Path, prompt: Sequence[int], tokens: int) -> list[int]:
    """The answer of an engine that has seen nothing else, with all experts in memory."""
    with Engine.open(folder, EngineOptions()) as engine:
        return greedy(engine, prompt, tokens)


def turn(engine: Engine, prompt: Sequence[int], tokens: int) -> tuple[list[int], int]:
    """The answer, and how many ids of the prompt were read for it."""
    events = list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))
    assert isinstance(events[0], Prefill)
    return [event.id for event in events if isinstance(event, Token)], events[0].total


@pytest.mark.parametrize("name", MODELS)
def test_a_conversation(name: str, folder: Folder, options: EngineOptions) -> None:
    """Continued, answered again, edited, and taken back to where it was."""
    with Engine.open(folder(name), options) as engine:
        again = TAIL if engine.conversation.recurrent else 1
        assert engine.conversation.recurrent == (name in RECURRENT)
        first, read = turn(engine, prompt_of(), 12)
        assert read == PROMPT
        longer = [*prompt_of(), *first, *REPLY]
        second, read = turn(engine, longer, 9)
        assert read == len(REPLY) + 1  # the answer's last token was never read
        same, read = turn(engine, longer, 9)
        assert (same, read) == (second, again)
        edited = [*longer[:-4], 88, 87, 86]
        third, read = turn(engine, edited, 9)
        assert read <= 3 + again
        fourth, read = turn(engine, [*prompt_of(), 50, 51, 52, 53, 54, 55, 56, 57], 9)
        assert read <= 8 + again
        back, read = turn(engine, longer, 9)
        assert read <= len(longer) - PROMPT + again
    assert first == afresh(folder(name), prompt_of(), 12)
    assert second == back == afresh(folder(name), longer, 9)
    assert third == afresh(folder(name), edited, 9)
    assert fourth == afresh(folder(name), [*prompt_of(), 50, 51, 52, 53, 54, 55, 56, 57], 9)


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_cut_short_goes_on(name: str, folder: Folder, options: EngineOptions) -> None:
    whole = afresh(folder(name), prompt_of(), 20)
    with Engine.open(folder(name), options) as engine:
        said: list[int] = []
        for tokens, expected_read in ((6, PROMPT), (7, 1), (7, 1)):
            more, read = turn(engine, [*prompt_of(), *said], tokens)
            assert read == expected_read
            said += more
    assert said == whole


@pytest.mark.parametrize("name", RECURRENT)
def test_a_prompt_whose_end_is_left_out_later(name: str, folder: Folder) -> None:
    """Templates that open a thought and forget it once there is an answer: little is read again."""
    opened = [*prompt_of(), 70, 71]
    answered = [*prompt_of(), *REPLY]
    with Engine.open(folder(name), EngineOptions()) as engine:
        turn(engine, opened, 30)
        tokens, read = turn(engine, answered, 6)
    assert read == len(REPLY) + TAIL - 2
    assert tokens == afresh(folder(name), answered, 6)


def stop_from_another_thread(engine: Engine) -> None:
    thread = threading.Thread(target=engine.stop)
    thread.start()
    thread.join()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("block", [1, 3, 6])
def test_stopped_between_the_blocks_of_a_prompt(
    name: str, block: int, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.plan.CHUNKS", (15,))
    with Engine.open(folder(name), EngineOptions(cap=2)) as engine:
        events: list[object] = []
        for event in engine.generate(prompt_of(), max_tokens=4, ignore_eos=True):
            events.append(event)
            if sum(isinstance(seen, Prefill) for seen in events) == block:
                stop_from_another_thread(engine)
        assert isinstance(events[-1], Turn)
        assert (events[-1].stop, events[-1].tokens) == ("user", 0)
        tokens, read = turn(engine, prompt_of(), 6)
    done = (block - 1) * 15
    if name in WINDOWED:
        assert read == PROMPT - done
    else:  # one moving mark, at the first block's end that has 64 ids or more before it
        assert read == PROMPT - (75 if done >= 75 else 0)
    assert tokens == afresh(folder(name), prompt_of(), 6)


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Engine, int], None]]:
    """Stops an engine from another thread while the experts of its n-th mixture from now on stream; needs cap 1."""
    run = Streamer.run

    def arrange(engine: Engine, number: int) -> None:
        calls = 0

        def counting(self: Streamer, *arguments: object) -> None:
            nonlocal calls
            calls += 1
            if calls == number:
                stop_from_another_thread(engine)
                monkeypatch.setattr(Streamer, "run", run)
            run(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Streamer, "run", counting)

    yield arrange
    monkeypatch.setattr(Streamer, "run", run)


@pytest.mark.parametrize("name", MODELS)
def test_stopped_among_the_layers_of_a_prompt(
    name: str, folder: Folder, stop_at: Callable[[Engine, int], None]
) -> None:
    """Some layers have seen the block and others have not; the turn before is kept."""
    with Engine.open(folder(name), EngineOptions(cap=1)) as engine:
        first, _ = turn(engine, prompt_of(), 12)
        longer = [*prompt_of(), *first, *REPLY]
        stop_at(engine, 1)
        events = list(engine.generate(longer, max_tokens=4, ignore_eos=True))
        assert isinstance(events[-1], Turn)
        assert (events[-1].stop, events[-1].tokens) == ("user", 0)
        tokens, read = turn(engine, longer, 6)
    assert read == len(REPLY) + 1
    assert tokens == afresh(folder(name), longer, 6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("made", [1, 5, 80])
def test_stopped_among_the_layers_of_a_token(
    name: str, made: int, folder: Folder, stop_at: Callable[[Engine, int], None]
) -> None:
    """The answer goes on where it was cut, and not all of it is read again."""
    with Engine.open(folder(name), EngineOptions(cap=1)) as engine:
        mixtures = len(engine.info.moe_layers)
        blocks = 2 if engine.conversation.recurrent else 1  # of the prompt: the second starts at a mark
        said: list[int] = []
        stop_at(engine, mixtures * (blocks + made - 1) + 1)
        for event in engine.generate(prompt_of(), max_tokens=made + 9, ignore_eos=True):
            if isinstance(event, Token):
                said.append(event.id)
            if isinstance(event, Turn):
                assert event.stop == "user"
        assert len(said) == made
        more, read = turn(engine, [*prompt_of(), *said], 5)
    if name in WINDOWED:
        assert read == 1
    else:
        assert read == (made + TAIL) % 64  # the mark moved along after 64
    assert [*said, *more] == afresh(folder(name), prompt_of(), made + 5)


@pytest.mark.parametrize("name", MODELS)
def test_any_course_of_a_conversation(name: str, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts that go on from, fork from and repeat each other, in any order."""
    monkeypatch.setattr("engine.plan.CHUNKS", (48,))
    choose = random.Random(7)
    with (
        Engine.open(folder(name), EngineOptions(cap=2)) as engine,
        Engine.open(folder(name), EngineOptions()) as forgetful,
    ):
        held = prompt_of(40)
        for _ in range(16):
            course = choose.choice(["go on", "fork", "again"])
            if course == "go on":
                held = [*held, *(choose.randrange(100) for _ in range(choose.randrange(1, 40)))]
            elif course == "fork":
                held = [*held[: choose.randrange(1, len(held))], choose.randrange(100)]
            tokens = choose.randrange(1, 20)
            answer = greedy(engine, held, tokens)
            forgetful.forget()
            assert answer == greedy(forgetful, held, tokens)
            if choose.random() < 0.7:
                held = [*held, *answer]


@pytest.mark.parametrize("name", RECURRENT)
def test_a_long_answer_leaves_the_marks_before_it(name: str, folder: Folder) -> None:
    """One mark moves along with an answer; the prompt's stays."""
    with Engine.open(folder(name), EngineOptions()) as engine:
        first, _ = turn(engine, prompt_of(), 64 * MARKS)
        again, read = turn(engine, prompt_of(), 9)
    assert (again, read) == (first[:9], TAIL)


def test_where_a_turn_was_stopped_a_mark_stays(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark that moved along to there stays, and another one moves on."""
    monkeypatch.setattr("engine.plan.CHUNKS", (15,))
    with Engine.open(folder("lfm2_moe-long"), EngineOptions()) as engine:
        for event in engine.generate(prompt_of(), max_tokens=1):
            if isinstance(event, Prefill) and event.done == 75:
                engine.stop()
        turn(engine, prompt_of(170), 1)
        _, read = turn(engine, [*prompt_of(78), 1, 2, 3], 1)
    assert read == 6


@pytest.mark.parametrize("name", RECURRENT)
def test_copies_of_the_state_are_few(name: str, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a conversation is, no more are kept than the memory plan counts."""
    with Engine.open(folder(name), EngineOptions()) as engine:
        kept = engine.conversation._marks
        held = prompt_of(30)
        for _ in range(MARKS):
            held = [*held, *greedy(engine, held, 70), *REPLY]
            kept = engine.conversation._marks
            assert len(kept) <= MARKS
        assert len(kept) == MARKS
        # The start of the conversation is out of reach and is read again, rightly.
        tokens, read = turn(engine, prompt_of(31), 5)
        assert read == 31
    assert tokens == afresh(folder(name), prompt_of(31), 5)


@pytest.mark.parametrize(("name", "cache"), [*((name, "f32") for name in MODELS), ("qwen3_next-long", "f16")])
def test_portions_threads_and_residency(name: str, cache: str, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows one by one through one slot a layer; all rows at once with everything in memory; and in between."""
    answers = []
    prompt = prompt_of(140)
    for chunk, threads, cap in ((256, 1, None), (1, 2, 1), (7, 3, 1), (64, 2, None)):
        monkeypatch.setattr("engine.plan.CHUNKS", (chunk,))
        with Engine.open(folder(name), EngineOptions(kv=cache, threads=threads, cap=cap)) as engine:
            answers.append((engine.logits(prompt), greedy(engine, prompt, 6)))
    logits, tokens = answers[0]
    for other, same in answers[1:]:
        np.testing.assert_array_equal(other, logits)
        assert same == tokens
