"""Where experts lie, how they get there, how many threads compute, in which portions: not a bit of an answer changes.

The reference of every model is computed with everything in memory, one thread, buffered reads and one block of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine import Engine, EngineOptions, Token, Turn
from engine.board import Counter
from engine.experts.policies import POLICIES
from tests.oracle import checkpoints, containers
from tests.oracle.answers import greedy
from tests.oracle.cases import CASES

FAMILIES = [name for name in CASES if not name.endswith("-long")]
CONTAINERS = [
    f"{name}:{fmt}" for name in ("olmoe", "qwen2_moe_mixed", "mixtral_swa", "glm4_moe") for fmt in ("int8", "int4")
]
MODELS = [*FAMILIES, *CONTAINERS]

PROMPT_TOKENS = 61
GREEDY = 6


def prompt_of(vocab: int, tokens: int = PROMPT_TOKENS) -> list[int]:
    """Any prompt that does not repeat soon."""
    return [(7 * n * n + 5 * n + 3) % vocab for n in range(tokens)]


@dataclass(frozen=True)
class Model:
    """A model's folder, and its answer when nothing is scarce."""

    folder: Path
    prompt: list[int]
    experts: int
    logits: npt.NDArray[np.float32]
    tokens: list[int]


Known = Callable[[str], Model]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Known:
    """Models by name, written and asked when first wanted; `name:format` is a container."""
    known: dict[str, Model] = {}

    def of(name: str) -> Model:
        if name not in known:
            case, _, fmt = name.partition(":")
            root = tmp_path_factory.mktemp(case)
            folder = (
                containers.write(root / fmt, CASES[case], fmt, dense_format=fmt)
                if fmt
                else checkpoints.write(root / "hub", CASES[case])
            )
            with Engine.open(folder, EngineOptions(threads=1, direct=False)) as engine:
                prompt = prompt_of(engine.spec.vocab)
                logits, tokens = engine.logits(prompt), greedy(engine, prompt, GREEDY)
                assert engine.info.plan.cap == engine.info.experts
                known[name] = Model(folder, prompt, engine.info.experts, logits, tokens)
        return known[name]

    return of


def test_the_formats_really_differ(model: Known) -> None:
    """Int4 is not int8 by mistake, and both are quantised."""
    exact, eight, four = (model(name).logits for name in ("olmoe", "olmoe:int8", "olmoe:int4"))
    assert 0 < np.abs(eight - exact).mean() < np.abs(four - exact).mean() < 2


@pytest.mark.parametrize(("share", "threads"), [("one", 2), ("fewer than top-k", 1), ("half", 3), ("all", 2)])
@pytest.mark.parametrize("name", MODELS)
def test_residency_and_threads(name: str, share: str, threads: int, model: Known) -> None:
    known = model(name)
    cap = {"one": 1, "fewer than top-k": 2, "half": (known.experts + 1) // 2, "all": known.experts}[share]
    with Engine.open(known.folder, EngineOptions(cap=cap, threads=threads, direct=share != "half")) as engine:
        assert engine.info.plan.cap == cap
        np.testing.assert_array_equal(engine.logits(known.prompt), known.logits)
        assert greedy(engine, known.prompt, GREEDY) == known.tokens
        # What was learned about placement meanwhile changes nothing either.
        before = int(engine.board.counters[Counter.BYTES_READ])
        np.testing.assert_array_equal(engine.logits(known.prompt), known.logits)
        read_again = int(engine.board.counters[Counter.BYTES_READ]) - before
        assert (read_again == 0) == (share == "all")


@pytest.mark.parametrize("policy", [None, *sorted(set(POLICIES) - {"auto"})])
def test_who_reads_small_experts(policy: str | None, model: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system or by threads, with guesses: the same tokens, and found in the same places."""
    known, found = model("olmoe:int4"), []
    for small in (0, 1 << 20):
        monkeypatch.setattr("engine.experts.async_reader.SMALL", small)
        with Engine.open(known.folder, EngineOptions(cap=3, policy=policy)) as engine:
            for _ in range(3):
                tokens, told = turn(engine, known.prompt)
                assert tokens == known.tokens
                engine.forget()
                found.append((told.hits, told.prefill_hits))
    assert found[:3] == found[3:]


@pytest.mark.parametrize("cap", [1, None])
@pytest.mark.parametrize("chunk", [1, 7, 16])
@pytest.mark.parametrize("name", ["qwen2_moe_mixed", "mixtral_swa", "glm4_moe", "olmoe:int8", "glm4_moe:int4"])
def test_the_portions_of_a_prompt(
    name: str, chunk: int, cap: int | None, model: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = model(name)
    monkeypatch.setattr("engine.plan.CHUNKS", (chunk,))
    with Engine.open(known.folder, EngineOptions(cap=cap)) as engine:
        assert engine.info.plan.chunk == chunk
        np.testing.assert_array_equal(engine.logits(known.prompt), known.logits)
        assert greedy(engine, known.prompt, GREEDY) == known.tokens


def test_thousands_of_tokens_through_one_slot_a_layer(tmp_path: Path) -> None:
    """More distinct experts in every block than there are slots, and a prompt of many blocks."""
    olmoe = CASES["olmoe"]
    smaller = {**olmoe.config, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    folder = checkpoints.write(tmp_path / "model", replace(olmoe, config=smaller))
    prompt = prompt_of(smaller["vocab_size"], 3000)
    answers = []
    for cap in (1, None):
        with Engine.open(folder, EngineOptions(cap=cap, context=4096)) as engine:
            answers.append(greedy(engine, prompt, 4))
            assert (engine.info.plan.slots < engine.info.experts) == (cap == 1)
    assert answers[0] == answers[1]


def turn(engine: Engine, prompt: Sequence[int], tokens: int = GREEDY) -> tuple[list[int], Turn]:
    events = list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))
    assert isinstance(events[-1], Turn)
    return [event.id for event in events if isinstance(event, Token)], events[-1]


@pytest.mark.parametrize("cap", [1, None])
@pytest.mark.parametrize("name", ["olmoe", "mixtral_swa", "glm4_moe:int8"])
def test_a_conversation_continued_is_a_conversation_read_afresh(name: str, cap: int | None, model: Known) -> None:
    """Keys and values that were kept give the tokens that keys and values computed again do."""
    known = model(name)
    options = EngineOptions(cap=cap)
    with Engine.open(known.folder, options) as engine:
        first, _ = turn(engine, known.prompt)
        longer = [*known.prompt, *first, 5, 17, 23, 4]
        second, _ = turn(engine, longer)
        forked = [*known.prompt[:40], 9, 8, 7, 6, 5]
        third, _ = turn(engine, forked)
        again, _ = turn(engine, forked)
        back, _ = turn(engine, longer)
    fresh = []
    for prompt in (longer, forked):
        with Engine.open(known.folder, options) as engine:
            fresh.append(turn(engine, prompt)[0])
    assert first == known.tokens
    assert [second, third] == fresh
    assert [back, again] == fresh


@pytest.mark.parametrize("name", ["olmoe", "glm4_moe", "qwen3_moe_mixed", "olmoe:int4"])
def test_fewer_experts_are_as_exact_as_all(name: str, model: Known) -> None:
    """The lossy switches change the answer, and keep it wherever the experts lie."""
    known = model(name)
    for lossy in ({"topk": 2}, {"topk": 1}, {"topp": 0.5}, {"topp": 0.8, "topk": 3}):
        results = []
        for cap, threads in ((1, 2), (known.experts, 1)):
            with Engine.open(known.folder, EngineOptions(cap=cap, threads=threads, **lossy)) as engine:
                results.append((engine.logits(known.prompt), *turn(engine, known.prompt)))
        (few, tokens, summary), (all_resident, same_tokens, same_summary) = results
        np.testing.assert_array_equal(few, all_resident)
        assert tokens == same_tokens
        assert summary.keff == same_summary.keff
        assert not np.array_equal(few, known.logits)
        if "topp" in lossy:
            assert 1 <= summary.keff < 3.5
        else:
            assert summary.keff == lossy["topk"]


@pytest.mark.parametrize("lossless", [{"topk": 64}, {"topp": 1.0}])
def test_switches_that_cut_nothing_change_nothing(lossless: dict[str, float], model: Known) -> None:
    known = model("glm4_moe")
    with Engine.open(known.folder, EngineOptions(cap=2, **lossless)) as engine:  # type: ignore[arg-type]
        np.testing.assert_array_equal(engine.logits(known.prompt), known.logits)
        assert turn(engine, known.prompt)[1].keff == engine.info.top_k
