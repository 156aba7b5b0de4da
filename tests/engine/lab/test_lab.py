"""Experiments: what is recorded is what ran, what is replayed is what would have been counted, verdicts follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Engine, EngineError, EngineOptions, Token
from engine.board import Counter
from engine.experts.trace_reader import LayerTrace, TraceReader, read_layers
from engine.lab.lessons import learn
from engine.lab.limits import cost_of, judge_prompt
from engine.lab.matrix import Cell, compare, judge
from engine.lab.order import chain, likeness
from engine.lab.prompts import ids_of, read_prompt, read_workloads
from engine.lab.recording import Recording, as_turn, join, record_turn
from engine.lab.replays import Figures, Room, Setting, figures_of, reads, turns_of
from engine.lab.rivals import contest
from engine.options import Lossy
from tests.engine.lab.small import EXPERTS, write_small

PROMPTS = [[(7 * n * n + a * n + 3) % 50 for n in range(20)] for a in (5, 11, 2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("lab") / "model")


@pytest.fixture
def engine(model: Path) -> Iterator[Engine]:
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=256)) as opened:
        yield opened


def room_of(engine: Engine, cap: int = 5) -> Room:
    return Room(cap * 2, (0, 1), EXPERTS, engine.spec.top_k, engine.info.expert_bytes)


def test_a_recording_is_the_trace_of_its_turns(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=256, route_trace=str(path))) as engine:
        recording = join(record_turn(engine, ids, 9)[0] for ids in PROMPTS)
        heat = engine.board.heat.copy()
    for layer, known in read_layers(TraceReader(path)).items():
        for field in ("calls", "rows", "ids"):
            assert np.array_equal(getattr(recording.layers[layer], field), getattr(known, field)), field
    assert recording.ends == (9, 18, 27)
    assert recording.tokens == 24
    assert np.array_equal(recording.counts(2, EXPERTS), heat)


def test_a_replay_counts_what_the_engine_counted(engine: Engine) -> None:
    recording = join(record_turn(engine, ids, 9)[0] for ids in PROMPTS)
    counters = engine.board.counters
    turns = turns_of(recording, Setting("auto", 5), EXPERTS)
    assert reads(turns) == counters[Counter.HITS_DISK] + counters[Counter.PREFILL_DISK]
    figures = figures_of(recording, Setting("auto", 5), room_of(engine))
    hits = counters[Counter.HITS_CACHE] / (counters[Counter.HITS_CACHE] + counters[Counter.HITS_DISK])
    assert figures.decode_rate == pytest.approx(hits)
    assert figures.bytes_a_token == counters[Counter.HITS_DISK] * engine.info.expert_bytes / 24
    assert figures.first == turns[0].total_rate
    assert turns_of(recording, Setting("min", 5), EXPERTS)[0].total_rate >= turns[0].total_rate


def test_rows_of_one_forward_as_a_turn() -> None:
    trace = LayerTrace(4, np.array([0, 5]), np.arange(0, 11, 2), np.array([0, 1, 1, 2, 0, 3, 1, 2, 2, 3], np.int32))
    turn = as_turn(Recording({0: trace}, (1,), 0), prompt=3, chunk=2)
    assert turn.layers[0].calls.tolist() == [0, 2, 3, 4, 5]
    assert (turn.ends, turn.tokens) == ((4,), 2)


def figures(rate: float) -> Figures:
    return Figures(rate, rate, rate, rate, 0.0)


@pytest.mark.parametrize(
    ("gains", "pins", "word"),
    [
        ({"a": 0.04, "b": 0.0}, 5, "helps"),
        ({"a": 0.04, "b": -0.02}, 5, "overfits"),
        ({"a": 0.005, "b": 0.005}, 5, "neutral"),
        ({"a": 0.0, "b": -0.03}, 5, "hurts"),
        ({"a": -0.03, "b": 0.0}, 5, "hurts"),
        ({"a": 0.2, "b": 0.2}, 0, "neutral"),
    ],
)
def test_verdicts(gains: dict[str, float], pins: int, word: str) -> None:
    cells = [Cell("a", work, figures(0.5), figures(0.5 + gain)) for work, gain in gains.items()]
    verdict, reason = judge("a", cells, pins, selections=100)
    assert verdict == word
    assert reason.startswith("pins: +4.0 points on its own work" if gains["a"] == 0.04 else ("pins", "nothing"))


def skewed(seed: int, favourites: list[int], tokens: int = 200) -> Recording:
    """Decoding that nearly always chooses among the favourites, in both layers."""
    rng = np.random.default_rng(seed)
    chance = np.full(EXPERTS, 0.02)
    chance[favourites] = 1.0
    ids = np.concatenate([rng.choice(EXPERTS, 2, replace=False, p=chance / chance.sum()) for _ in range(tokens)])
    trace = LayerTrace(EXPERTS, np.arange(tokens + 1), np.arange(0, 2 * tokens + 1, 2), ids.astype(np.int32))
    return Recording({0: trace, 1: trace}, (tokens // 2, tokens), tokens)


def test_pins_help_a_plain_cache_on_skewed_work_and_overfit_it() -> None:
    """With room for three a layer, LRU churns; knowing the two favourites of one kind of work is worth a lot there."""
    room = Room(6, (0, 1), EXPERTS, 2, 1000)
    work = {"code": [1, 2], "talk": [8, 9]}
    learned = {name: skewed(1, experts, 3000).counts(2, EXPERTS) for name, experts in work.items()}
    held_out = {name: skewed(2, experts) for name, experts in work.items()}
    matrix = compare(room, "lru", learned, held_out, pins_wanted=4.0)
    assert matrix.cap == 3
    code, _ = matrix.profiles
    assert (code.name, code.pins, code.cap) == ("code", 2, 2)
    assert code.verdict == "overfits"
    assert code.cells[0].pinned.rate > code.cells[1].pinned.rate
    assert code.warmth >= 0
    assert matrix.cold["code"].rate > 0.5
    unlearned = compare(room, "lru", {"code": np.zeros((2, EXPERTS), np.uint32)}, held_out).profiles[0]
    assert (unlearned.verdict, unlearned.pins) == ("neutral", 0)
    assert "0 selections are too few" in unlearned.reason


def test_policies_in_a_contest() -> None:
    room = Room(12, (0, 1), EXPERTS, 2, 1000)
    turns = {"a": skewed(1, [1, 2, 3, 4, 5, 6, 7, 8], 1000), "b": skewed(2, [3, 4, 5], 1000)}
    result = contest(room, ["auto", "lfu"], turns)
    assert [rival.policy for rival in result.rivals] == ["auto", "lfu", "lru", "min"]
    assert result.cap == 6
    assert result.cap in result.caps
    by_name = {rival.policy: rival for rival in result.rivals}
    assert set(by_name["lru"].gaps) <= {0.0, None}
    assert set(by_name["min"].gaps) <= {1.0, None}
    assert result.best in ("auto", "lfu")
    assert "% of the way to the optimum; " in by_name["auto"].verdict


def test_limits_cost_agreement_and_save_reads(engine: Engine) -> None:
    limits = [Lossy(), Lossy(top_p=0.5), Lossy(top_k=1)]
    judged = [judge_prompt(engine, ids, 12, limits, room_of(engine), "lru") for ids in PROMPTS]
    nothing, topp, topk = (cost_of(limit, [reply[n] for reply in judged]) for n, limit in enumerate(limits))
    assert (nothing.agreement, nothing.saved) == (1.0, 0.0)
    assert nothing.divergence == pytest.approx(0.0, abs=1e-9)
    assert nothing.kept == engine.spec.top_k
    assert topk.kept == 1.0
    assert 1.0 <= topp.kept < engine.spec.top_k
    assert topk.divergence > 0
    assert topk.saved > topp.saved > 0
    assert nothing.positions == topk.positions
    again = [event.id for event in engine.generate(PROMPTS[0], max_tokens=12) if isinstance(event, Token)]
    engine.forget()
    assert again == record_turn(engine, PROMPTS[0], 12)[1]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=7))
def test_an_order_has_every_prompt_once(prompts: list[list[int]]) -> None:
    alike = likeness(prompts)
    assert np.allclose(alike, alike.T)
    assert np.allclose(np.diag(alike), 1.0)
    assert sorted(chain(alike)) == list(range(len(prompts)))


def test_what_is_alike_comes_together() -> None:
    order = chain(likeness([[1, 2, 3], [7, 8, 9], [1, 2, 4], [7, 8, 6]]))
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset((0, 2)), frozenset((1, 3))}


def test_lessons_are_learned_and_measured(model: Path, tmp_path: Path) -> None:
    usage = tmp_path / "usage"
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=256, usage=str(usage))) as engine:
        told: list[int] = []
        result = learn(engine, PROMPTS, 9, "auto", told.append)
        heat = engine.board.heat.sum()
    assert told == [0, 1, 2]
    assert sorted(lesson.place for lesson in result.lessons) == [0, 1, 2]
    assert result.read == result.in_order == sum(lesson.read for lesson in result.lessons)
    assert result.saved == pytest.approx(1 - result.in_order / result.as_given)
    assert result.selections == heat
    assert usage.stat().st_size > 0
    with Engine.open(model, EngineOptions(cap=5, threads=1, context=256, usage=str(usage), learn=False)) as engine:
        engine._learning.ahead.finish()
        warm = learn(engine, PROMPTS, 9, "auto", told.append, as_given=True)
    assert [lesson.place for lesson in warm.lessons] == [0, 1, 2]
    assert warm.read == warm.in_order == warm.as_given


def test_workloads_of_a_folder(tmp_path: Path, engine: Engine) -> None:
    for name in ("code", "talk"):
        (tmp_path / name).mkdir()
        for number in range(3):
            (tmp_path / name / f"{number}.txt").write_text(f"{name} {number}\n")
    code, talk = read_workloads(tmp_path)
    assert [prompt.text for prompt in code.training] == ["code 0", "code 2"]
    assert [prompt.name for prompt in talk.held_out] == ["talk/1.txt"]
    (alone,) = read_workloads(tmp_path / "code")
    assert alone.name == "code"
    ids = ids_of(engine, code.training[0], 9)
    assert len(ids) > len(engine.encode("code 0"))
    with pytest.raises(EngineError, match=r"do not fit the context of 256"):
        ids_of(engine, replace(code.training[0], text="word " * 300), 9)
    (tmp_path / "code" / "0.txt").unlink()
    (tmp_path / "code" / "1.txt").unlink()
    with pytest.raises(EngineError, match=r"1 prompt\(s\); one to learn from"):
        read_workloads(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(EngineError, match="the prompt is empty"):
        read_prompt(tmp_path / "empty")
