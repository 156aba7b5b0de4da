"""Layers that keep their window only: not a bit of an answer differs from that of layers that keep everything.

`tests.oracle` says that the answers are right. Rings are made as small as blocks of 16 rows allow, so that prompts of
three and more times the window go round several times.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from engine import Engine, EngineOptions, Prefill, Token, Turn
from engine.experts.streaming import Streamer
from engine.families import read_spec
from engine.kernels.formats import F16, F32
from engine.model.kv import KVCache, kv_bytes
from engine.model.mixers import mixer_of
from engine.model.strips import WINDOW_MARKS, Strip, ring_length
from tests.oracle.answers import greedy
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import Folder

MODELS = [
    "qwen2_moe_mixed-long", "qwen3_moe-long", "mixtral_swa-long", "dots1-long", "gpt_oss-long", "phimoe-long",
    "llama4", "llama4-long", "llama4_maverick-long", "gemma4-long",
]  # fmt: skip
SOME = ["gpt_oss-long", "llama4-long", "gemma4-long"]
ROWS = 16


def prompt_of(tokens: int) -> list[int]:
    """Any prompt that does not repeat soon."""
    return [(11 * n * n + 3 * n + 1) % 103 for n in range(tokens)]


@pytest.fixture(autouse=True)
def _small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.model.strips.MOST_ROWS", ROWS)
    monkeypatch.setattr("engine.plan.CHUNKS", (ROWS,))


Whole = Callable[..., Engine]


@pytest.fixture
def whole(folder: Folder) -> Iterator[Whole]:
    """Opens engines that keep everything, with all experts in memory."""
    opened: list[Engine] = []

    def of(name: str, kv: str = "f32") -> Engine:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("engine.model.mixers.grouped.ring_length", lambda capacity, behind: capacity)
            opened.append(Engine.open(folder(name), EngineOptions(kv=kv, context=2048)))
        return opened[-1]

    yield of
    for engine in opened:
        engine.close()


def turn(engine: Engine, prompt: Sequence[int], tokens: int) -> tuple[list[int], int]:
    """The answer, and how many ids of the prompt were read for it."""
    events = list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))
    assert isinstance(events[0], Prefill)
    return [event.id for event in events if isinstance(event, Token)], events[0].total


def longest_ring(engine: Engine) -> int:
    """Rows of the longest ring; fails when there is none."""
    spec, context = engine.spec, engine.info.context
    strips = [strip for layer in range(len(spec.layers)) for strip in mixer_of(spec, layer).strips(context, F32)]
    return max(strip.length for strip in strips if strip.is_ring(context))


@pytest.mark.parametrize(("name", "kv"), [*((name, "f32") for name in MODELS), ("gpt_oss-long", "f16")])
def test_the_window_is_enough(
    name: str, kv: str, folder: Folder, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the portions, the threads and the place of the experts."""
    kept = whole(name, kv)
    prompt = prompt_of(280)
    logits, tokens = kept.logits(prompt), greedy(kept, prompt, 24)
    for rows, threads, cap in ((ROWS, 2, None), (7, 1, 1)):
        monkeypatch.setattr("engine.plan.CHUNKS", (rows,))
        with Engine.open(folder(name), EngineOptions(kv=kv, threads=threads, cap=cap, context=2048)) as engine:
            assert longest_ring(engine) < len(prompt) - ROWS
            np.testing.assert_array_equal(engine.logits(prompt), logits)
            assert greedy(engine, prompt, 24) == tokens


def test_blocks_of_the_largest_size(folder: Folder, whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is outside of tests."""
    monkeypatch.setattr("engine.model.strips.MOST_ROWS", 256)
    monkeypatch.setattr("engine.plan.CHUNKS", (256,))
    prompt = prompt_of(700)
    kept = whole("gpt_oss-long")
    with Engine.open(folder("gpt_oss-long"), EngineOptions(context=2048)) as engine:
        assert longest_ring(engine) == 320
        np.testing.assert_array_equal(engine.logits(prompt), kept.logits(prompt))


@pytest.mark.parametrize("name", SOME)
def test_any_course_of_a_conversation(name: str, folder: Folder, whole: Whole) -> None:
    """Prompts that go on from, fork from and repeat each other, in any order, within the rings and far beyond."""
    choose = random.Random(5)
    forgetful, beyond = whole(name), 0
    with Engine.open(folder(name), EngineOptions(cap=2, context=2048)) as engine:
        held = prompt_of(150)
        for _ in range(18):
            course = choose.choice(["go on", "fork", "edit", "again"])
            if course == "go on":
                held = [*held, *(choose.randrange(100) for _ in range(choose.randrange(1, 120)))]
            elif course == "fork":
                held = [*held[: choose.randrange(1, len(held))], choose.randrange(100)]
            elif course == "edit":
                held = [*held[: -choose.randrange(1, 90)], choose.randrange(100)]
            tokens = choose.randrange(1, 40)
            answer, read = turn(engine, held, tokens)
            beyond += read == len(held) > 1
            forgetful.forget()
            assert answer == turn(forgetful, held, tokens)[0]
            if choose.random() < 0.7:
                held = [*held, *answer]
    assert beyond > 2


@pytest.mark.parametrize("name", SOME)
def test_what_is_read_again(name: str, folder: Folder, whole: Whole) -> None:
    """However long an answer was: to give another one costs nothing, to change its prompt that prompt."""
    kept = whole(name)
    with Engine.open(folder(name), EngineOptions(context=2048)) as engine:
        far = longest_ring(engine) + 40
        opening = prompt_of(170)
        first, read = turn(engine, opening, far)
        assert read == 170
        second = [*opening, *first, *prompt_of(60)[::-1]]
        answer, read = turn(engine, second, far)
        assert read == 61  # the answer's last token was never read
        again, read = turn(engine, second, far)
        assert (again, read) == (answer, 8)
        other = [*opening, *first, *prompt_of(50)[::-1]]
        edited, read = turn(engine, other, 5)
        assert read == 51
        earlier = [*opening[:-1], 99, *first]
        from_the_start, read = turn(engine, earlier, 5)
        assert read == len(earlier)
    kept.forget()
    assert answer == turn(kept, second, far)[0]
    kept.forget()
    assert edited == turn(kept, other, 5)[0]
    kept.forget()
    assert from_the_start == turn(kept, earlier, 5)[0]


@pytest.mark.parametrize("name", SOME)
def test_an_answer_that_went_on_can_be_given_again(name: str, folder: Folder, whole: Whole) -> None:
    """However often it went on; and so can the prompt be changed."""
    with Engine.open(folder(name), EngineOptions(context=2048)) as engine:
        far = longest_ring(engine) + 40
        opening = prompt_of(100)
        said, _ = turn(engine, opening, far)
        prompt = [*opening, *said, *prompt_of(70)[::-1]]
        answer: list[int] = []
        for read in (71, 1, 1):
            more, seen = turn(engine, [*prompt, *answer], far)
            assert seen == read
            answer += more
        assert turn(engine, prompt, 9) == (answer[:9], 8)
        assert turn(engine, prompt, 9) == (answer[:9], 1)
        edited, read = turn(engine, [*prompt[:-30], 5], 9)
        assert read == 42
    assert edited == turn(whole(name), [*prompt[:-30], 5], 9)[0]


@pytest.mark.parametrize("name", ["olmoe", "jetmoe", "deepseek_v32-long"])
def test_without_windows_a_conversation_can_be_cut_anywhere(name: str, folder: Folder) -> None:
    with Engine.open(folder(name), EngineOptions(context=2048)) as engine:
        answer, _ = turn(engine, prompt_of(250), 5)
        assert turn(engine, [*prompt_of(30), 7], 5)[1] == 1
        assert turn(engine, prompt_of(250), 5) == (answer, 220)


@pytest.mark.parametrize("name", SOME)
def test_stopped_among_the_layers_of_a_prompt(
    name: str, folder: Folder, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some layers have stored the block and others have not; what was read before it stays."""
    run, calls = Streamer.run, 0
    with Engine.open(folder(name), EngineOptions(cap=1, context=2048)) as engine:
        mixtures = len(engine.info.moe_layers)

        def counting(self: Streamer, *arguments: object) -> None:
            nonlocal calls
            calls += 1
            if calls == 14 * mixtures + 1:
                thread = threading.Thread(target=engine.stop)
                thread.start()
                thread.join()
            run(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Streamer, "run", counting)
        events = list(engine.generate(prompt_of(300), max_tokens=4, ignore_eos=True))
        assert isinstance(events[-1], Turn)
        assert events[-1].stop == "user"
        tokens, read = turn(engine, prompt_of(300), 6)
        assert read == 300 - 14 * ROWS
        fork = [*prompt_of(14 * ROWS - 20), 77, 78]
        forked, read = turn(engine, fork, 6)
    assert tokens == turn(whole(name), prompt_of(300), 6)[0]
    assert forked == turn(whole(name), fork, 6)[0]


def test_marks_are_few(folder: Folder) -> None:
    """No more than the memory plan counts."""
    with Engine.open(folder("gpt_oss-long"), EngineOptions(context=2048)) as engine:
        held = prompt_of(100)
        for _ in range(4):
            held = [*held, *greedy(engine, held, 90), 3, 5, 8]
            assert len(engine.conversation._marks) <= WINDOW_MARKS


@pytest.mark.parametrize("name", MODELS)
def test_the_plan_counts_windows_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another 10,000 tokens cost what the layers without a window keep of them."""
    monkeypatch.setattr("engine.model.strips.MOST_ROWS", 256)
    spec = read_spec(CASES[name].config)
    more = kv_bytes(spec, 20_000, F16) - kv_bytes(spec, 10_000, F16)
    strips = [strip for layer in range(len(spec.layers)) for strip in mixer_of(spec, layer).strips(10_000, F16)]
    everything = [strip for strip in strips if strip.behind is None]
    assert len(everything) < len(strips)
    expected = sum(strip.heads * 10_000 * strip.row_bytes for strip in everything)
    assert abs(more - expected) <= 4096 * len(spec.layers)


def test_the_cache_takes_what_the_plan_counts() -> None:
    """Memory, and the copies, which are made when they are needed."""
    spec = read_spec(CASES["gpt_oss-long"].config)
    cache = KVCache(spec, 5000, F32)
    copies = sum(window.nbytes for window in cache.copy(4000).windows)
    assert cache._block.nbytes + WINDOW_MARKS * copies == kv_bytes(spec, 5000, F32)


@pytest.mark.parametrize("behind", [0, 1, 48, 49, 127, 4095, 70_000])
@pytest.mark.parametrize("capacity", [64, 500, 8192, 131_072])
def test_rings(behind: int, capacity: int) -> None:
    """In whole tiles of attention, with room for a block of rows and what its first one looks back on."""
    length = ring_length(capacity, behind)
    assert length <= capacity
    if length < capacity:
        assert length % 64 == 0
        assert length >= behind + ROWS
        strip = Strip(1, length, 4, behind=behind)
        rows = strip.rows(capacity)
        assert len(set(rows.tolist())) == len(rows) == behind
    assert ring_length(capacity, None) == capacity
