"""A turn as the engine tells it: events, counts, history, trace and board, each checked against the others."""

from __future__ import annotations

import json
import re
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions, Event, Loading, Notice, Prefill, Ready, Token, Turn
from engine.board import Board, Counter, Phase, Tier
from engine.compiling import COMPILING
from engine.errors import ContextOverflowError
from engine.events import to_json
from tests.oracle.answers import Expected
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

OLMOE = CASES["olmoe"]
LAYERS, EXPERTS, TOP_K = 3, 9, 3


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected.load("olmoe")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "tiny olmoe", OLMOE)


def turn(engine: Engine, prompt: Sequence[int], tokens: int = 8) -> list[Event]:
    return list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))


def ids_of(events: Sequence[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def summary_of(events: Sequence[Event]) -> Turn:
    assert isinstance(events[-1], Turn)
    return events[-1]


# What a turn tells


def test_the_order_of_events(folder: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.plan.CHUNKS", (10,))
    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        events = turn(engine, expected.prompt)
    done = [(event.done, event.total) for event in events if isinstance(event, Prefill)]
    assert done == [(0, 24), (10, 24), (20, 24), (24, 24)]
    kinds = [event.event for event in events]
    assert kinds == ["prefill"] * 4 + ["token"] * 8 + ["turn"]
    assert ids_of(events) == expected.answer.greedy[:8]


def test_the_fields_of_a_turn(folder: Path, expected: Expected) -> None:
    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        events = turn(engine, expected.prompt)
        expert_bytes = engine.info.expert_bytes
        summary = summary_of(events)
    assert (summary.prompt_tokens, summary.tokens, summary.stop) == (24, 8, "length")
    assert 0 < summary.prefill_s <= summary.ttft_s
    assert summary.tok_s == pytest.approx(7 / summary.decode_s, rel=0.05)
    assert summary.keff == TOP_K
    assert summary.bytes_read == (summary.hits.disk + summary.prefill_hits.disk) * expert_bytes
    # Seven tokens were fed back, each choosing three experts in three layers.
    assert summary.hits.total == 7 * LAYERS * TOP_K
    assert summary.prefill_hits.total <= LAYERS * EXPERTS
    assert summary.hits.pin == summary.prefill_hits.pin == 0
    assert 0 < summary.hits.rate < 1


def test_events_as_json(folder: Path, expected: Expected) -> None:
    told: list[Event] = []
    with Engine.open(folder, EngineOptions(cap=2), progress=told.append) as engine:
        told += [engine.info, *turn(engine, expected.prompt, 2)]
    lines = [json.loads(json.dumps(to_json(event))) for event in told]
    keys = {line["event"]: list(line) for line in lines}
    assert keys["loading"] == ["event", "stage", "done", "total"]
    assert keys["notice"] == ["event", "text"]
    assert keys["ready"][:3] == ["event", "model", "family"]
    assert {"layers", "experts", "dense_bytes", "expert_bytes", "plan"} <= set(keys["ready"])
    assert keys["prefill"] == ["event", "done", "total"]
    assert keys["token"] == ["event", "id", "text"]
    assert keys["turn"] == [
        "event", "prompt_tokens", "tokens", "ttft_s", "prefill_s", "decode_s", "tok_s", "hits", "prefill_hits",
        "bytes_read", "keff", "stop",
    ]  # fmt: skip
    (line,) = [line for line in lines if line["event"] == "turn"]
    assert list(line["hits"]) == list(line["prefill_hits"]) == ["pin", "cache", "disk"]


def test_what_is_told_while_loading(folder: Path) -> None:
    told: list[Loading | Notice] = []
    with Engine.open(folder, EngineOptions(cap=2, context=100), progress=told.append) as engine:
        info = engine.info
        assert engine.notices == [event.text for event in told if isinstance(event, Notice)]
    assert isinstance(info, Ready)
    assert (info.model, info.family, info.layers, info.experts, info.top_k) == ("tiny olmoe", "olmoe", 3, 9, 3)
    assert info.moe_layers == (0, 1, 2)
    assert info.context == info.plan.context == 100
    assert info.expert_bytes == 3 * 20 * 48 * 2
    assert any(event.text.startswith("memory plan: ") for event in told if isinstance(event, Notice))
    steps = [(event.stage, event.done / event.total) for event in told if isinstance(event, Loading)]
    for stage in {stage for stage, _ in steps}:
        shares = [share for name, share in steps if name == stage]
        assert shares == sorted(shares)
        assert shares[-1] == 1


# How a turn ends


def test_a_prompt_that_does_not_fit_is_refused_before_anything_is_computed(folder: Path) -> None:
    with Engine.open(folder, EngineOptions(context=20, warm=False)) as engine:
        before = engine.board.counters.copy()
        with pytest.raises(ContextOverflowError, match="25 tokens, the context window 20"):
            engine.generate([1] * 25)
        with pytest.raises(ContextOverflowError):
            engine.logits([1] * 21)
        np.testing.assert_array_equal(engine.board.counters, before)
        assert summary_of(turn(engine, [1] * 20, 1)).tokens == 1


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [([], "empty"), ([3, 131, 4], "token id 131 at place 1"), ([-1], "token id -1 at place 0")],
)
def test_impossible_prompts_are_refused(folder: Path, ids: list[int], complaint: str) -> None:
    with Engine.open(folder) as engine, pytest.raises(EngineError, match=complaint):
        engine.generate(ids)


def test_the_end_of_the_window_ends_the_answer(folder: Path, expected: Expected) -> None:
    with Engine.open(folder, EngineOptions(context=30)) as engine:
        events = list(engine.generate(expected.prompt, ignore_eos=True))
        # Six places are left for tokens that are fed back; the seventh is told but needs no place.
        assert ids_of(events) == expected.answer.greedy[:7]
        assert summary_of(events).stop == "length"
        assert engine.board.counters[Counter.CONTEXT_USED] == 30


def test_an_end_of_sequence_token_ends_the_answer(tmp_path: Path, expected: Expected) -> None:
    third = expected.answer.greedy[2]
    assert third not in expected.answer.greedy[:2]
    folder = write(tmp_path / "model", replace(OLMOE, config={**OLMOE.config, "eos_token_id": [130, third]}))
    with Engine.open(folder) as engine:
        events = list(engine.generate(expected.prompt))
        assert ids_of(events) == expected.answer.greedy[:3]
        assert summary_of(events).stop == "eos"
        assert ids_of(turn(engine, expected.prompt)) == expected.answer.greedy[:8]


def test_a_broken_model_ends_the_turn_with_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", replace(OLMOE, dtype="F32", config={**OLMOE.config, "num_hidden_layers": 1}))
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    start = 8 + int.from_bytes(data[:8], "little") + header["model.norm.weight"]["data_offsets"][0]
    data[start : start + 4] = np.float32(np.nan).tobytes()
    path.write_bytes(data)
    events: list[Event] = []
    with Engine.open(folder) as engine:
        with pytest.raises(EngineError, match="nan"):
            events.extend(engine.generate([1, 2, 3]))  # what came before the error is kept
        assert summary_of(events).stop == "error"
        assert engine.board.counters[Counter.PHASE] == Phase.IDLE


def test_an_abandoned_turn_leaves_the_engine_usable(folder: Path, expected: Expected) -> None:
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        started = engine.generate(expected.prompt, ignore_eos=True)
        for _ in range(5):
            next(started)
        started.close()  # type: ignore[attr-defined]
        assert engine.board.counters[Counter.PHASE] == Phase.IDLE
        assert ids_of(turn(engine, expected.prompt)) == expected.answer.greedy[:8]


def test_sampling_is_reproducible(folder: Path, expected: Expected) -> None:
    def sample(engine: Engine, seed: int) -> list[int]:
        drawn = engine.generate(expected.prompt, max_tokens=12, temperature=1.5, seed=seed, ignore_eos=True)
        return ids_of(list(drawn))

    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        first, again, other = sample(engine, 7), sample(engine, 7), sample(engine, 8)
    assert first == again != other
    assert first != expected.answer.greedy[:12]


# What is kept of the conversation


def test_only_what_is_new_is_read(folder: Path, expected: Expected) -> None:
    with Engine.open(folder) as engine:
        said = ids_of(turn(engine, expected.prompt))
        held = [*expected.prompt, *said[:-1]]
        assert engine.board.counters[Counter.CONTEXT_USED] == len(held)
        totals = []
        for prompt in ([*held, 1, 2, 3], held[:10], [*held[:10], 100, 101], [5]):
            events = turn(engine, prompt, 1)
            totals.append(next(event.total for event in events if isinstance(event, Prefill)))
            assert summary_of(events).prompt_tokens == len(prompt)
        # The last token of a prompt is always computed: its logits are wanted.
        assert totals == [3, 1, 2, 1]


# History and trace


def parsed_usage(path: Path) -> Tally[tuple[int, int]]:
    """A history, read by the letter of its format."""
    lines = [tuple(map(int, line.split(" "))) for line in path.read_text().splitlines()]
    assert lines[0] == (-1, LAYERS, EXPERTS)
    assert lines[1] == (-2, 1, 3841822045)
    assert lines[2:] == sorted(lines[2:])
    return Tally({(layer, expert): count for layer, expert, count in lines[2:]})


Call = tuple[int, list[list[tuple[int, float]]]]
"""A layer, and by row the experts and gates."""


def parsed_trace(path: Path) -> list[Call]:
    """A route trace, read by the letter of its format."""
    text = path.read_text()
    assert text.endswith("\n")
    calls: list[Call] = []
    for line in text.splitlines():
        assert re.fullmatch(r"\d+ \d+ \d+( \d+:\d+\.\d{4})+", line)
        call, row, layer, *pairs = line.split(" ")
        if int(call) == len(calls):
            calls.append((int(layer), []))
        assert int(call) == len(calls) - 1
        assert int(layer) == calls[-1][0]
        assert int(row) == len(calls[-1][1])
        calls[-1][1].append([(int(pair.split(":")[0]), float(pair.split(":")[1])) for pair in pairs])
    return calls


def counted(calls: Sequence[Call]) -> Tally[tuple[int, int]]:
    return Tally((layer, expert) for layer, rows in calls for row in rows for expert, _ in row)


def test_the_trace_tells_what_the_reference_decides(folder: Path, expected: Expected, tmp_path: Path) -> None:
    with Engine.open(folder, EngineOptions(cap=2, route_trace=str(tmp_path / "trace"))) as engine:
        turn(engine, expected.prompt, 24)
    calls = parsed_trace(tmp_path / "trace")
    assert [layer for layer, _ in calls] == [0, 1, 2] * 24
    assert [len(rows) for _, rows in calls] == [24] * 3 + [1] * 69
    for layer, (ids, weights) in expected.answer.routes.items():
        rows = [row for traced, rows in calls if traced == layer for row in rows]
        assert all([gate for _, gate in row] == sorted((gate for _, gate in row), reverse=True) for row in rows)
        told = [sorted(row) for row in rows]
        assert [[expert for expert, _ in row] for row in told] == ids.tolist()
        np.testing.assert_allclose([[gate for _, gate in row] for row in told], weights, rtol=0, atol=6e-5)


@pytest.mark.parametrize("lossy", [{}, {"topk": 2}, {"topp": 0.6}])
def test_history_trace_board_and_turns_agree(
    lossy: dict[str, Any], folder: Path, expected: Expected, tmp_path: Path
) -> None:
    history, trace = tmp_path / "history", tmp_path / "trace"
    options = EngineOptions(cap=2, usage=str(history), route_trace=str(trace), **lossy)
    with Engine.open(folder, options) as engine:
        for turns, prompt in enumerate((expected.prompt, expected.prompt[:13], [9, 8, 7]), 1):
            calls_before = len(parsed_trace(trace)) if turns > 1 else 0
            summary = summary_of(turn(engine, prompt, 5))
            calls = parsed_trace(trace)
            counts = counted(calls)
            assert parsed_usage(history) == counts
            assert Tally(dict(np.ndenumerate(engine.board.heat.astype(int)))) == counts
            looked_up = [len({expert for row in rows for expert, _ in row}) for _, rows in calls[calls_before:]]
            assert summary.prefill_hits.total == sum(looked_up[:LAYERS])
            assert summary.hits.total == sum(looked_up[LAYERS:])
            decoded = [row for _, rows in calls[calls_before + LAYERS :] for row in rows]
            assert summary.keff == pytest.approx(sum(map(len, decoded)) / len(decoded), abs=1e-3)
    kept = {len(row) for _, rows in calls for row in rows}
    assert kept == ({2} if "topk" in lossy else {3} if not lossy else kept & {1, 2, 3})
    if "topp" in lossy:
        assert len(kept) > 1


def test_a_history_goes_on_where_it_ended(folder: Path, expected: Expected, tmp_path: Path) -> None:
    history = tmp_path / "deep" / "history"
    totals = []
    for learn in (True, True, False):
        with Engine.open(folder, EngineOptions(usage=str(history), learn=learn)) as engine:
            before = engine.board.heat.astype(int).sum()
            turn(engine, expected.prompt, 3)
        totals.append((before, sum(parsed_usage(history).values())))
    each = (24 + 2) * LAYERS * TOP_K
    assert totals == [(0, each), (each, 2 * each), (2 * each, 2 * each)]


def test_a_history_that_cannot_be_saved_is_told_and_the_turn_goes_on(
    folder: Path, expected: Expected, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with Engine.open(folder, EngineOptions(usage=str(tmp_path / "file" / "history"))) as engine:
        events = turn(engine, expected.prompt)
        told = [*engine.notices, *(event.text for event in events if isinstance(event, Notice))]
        assert any("history" in text for text in told)
        assert ids_of(events) == expected.answer.greedy[:8]
        assert summary_of(events).stop == "length"


# The board


def test_the_board_after_turns(tmp_path: Path) -> None:
    """A model with dense layers: they have no experts to show."""
    case = CASES["qwen3_moe_mixed"]
    folder = write(tmp_path / "model", case)
    prompt = Expected.load(case.name).prompt
    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        board = engine.board
        assert (board.layers, board.experts) == (4, 11)
        assert (board.tier[[0, 2]] == Tier.NONE).all()
        assert (board.tier[[1, 3]] == Tier.DISK).all()
        first, second = summary_of(turn(engine, prompt)), summary_of(turn(engine, prompt, 4))
        counters = board.counters
        assert counters[Counter.CLOCK] == 1 + 7 + 1 + 3
        assert counters[Counter.TOKENS] == 12
        assert counters[Counter.CONTEXT_USED] == len(prompt) + 3
        assert counters[Counter.PREFILL_DONE] == counters[Counter.PREFILL_TOTAL] == 1
        assert counters[Counter.PHASE] == Phase.IDLE
        for counter, field in (
            (Counter.HITS_PIN, "pin"),
            (Counter.HITS_CACHE, "cache"),
            (Counter.HITS_DISK, "disk"),
        ):
            assert counters[counter] == getattr(first.hits, field) + getattr(second.hits, field)
        assert counters[Counter.PREFILL_DISK] == first.prefill_hits.disk + second.prefill_hits.disk
        assert counters[Counter.BYTES_READ] == first.bytes_read + second.bytes_read
        assert counters[Counter.KEFF_SUM] == 3 * counters[Counter.KEFF_ROWS] == 3 * 2 * (7 + 3)
        assert board.last_use.max() == counters[Counter.CLOCK]
        assert ((board.heat > 0) == (board.last_use > 0)).all()
        cached = (board.tier == Tier.CACHE).sum(axis=1)
        assert cached.tolist() == [0, 2, 0, 2]
        # Read and not kept: what was read is in a cache or was put out of one.
        read = int(counters[Counter.HITS_DISK] + counters[Counter.PREFILL_DISK])
        assert read - int(counters[Counter.EVICTIONS]) == cached.sum()


def test_a_shared_board_is_seen_by_a_reader(folder: Path, expected: Expected) -> None:
    with Engine.open(folder, shared_board=True) as engine:
        reader = Board.attach(engine.board.name, engine.board.layers, engine.board.experts)
        turn(engine, expected.prompt)
        np.testing.assert_array_equal(reader.heat, engine.board.heat)
        assert reader.counters[Counter.TOKENS] == 8
        reader.close()


def test_text_needs_a_tokenizer(folder: Path) -> None:
    with Engine.open(folder) as engine:
        with pytest.raises(EngineError, match=r"tokenizer\.json"):
            engine.encode("hello")
        with pytest.raises(EngineError, match=r"tokenizer\.json"):
            engine.render([])


def test_a_first_start_is_not_silent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asked for no progress is told once why it takes so long; who asked hears it there; later starts need none."""

    def compile_some(tell: Callable[[Loading], None]) -> None:
        for done in range(1, 4):
            tell(Loading(COMPILING, done, 3))

    told: list[Loading | Notice] = []
    Engine.open(folder).close()
    assert not caplog.records
    monkeypatch.setattr("engine.engine.compile_elsewhere", compile_some)
    Engine.open(folder, progress=told.append).close()
    assert told[0] == Loading(COMPILING, 1, 3)
    assert not caplog.records
    Engine.open(folder).close()
    assert [record.getMessage() for record in caplog.records] == [
        "compiling kernels, once per machine; this may take a minute"
    ]
