"""`.coli_pairs` while an engine runs: read with suspicion, counted like `trace pairs`, kept by the history's rules."""

from __future__ import annotations

import multiprocessing
from collections import Counter as Bag
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, EngineOptions
from engine.board import Foreseer
from engine.errors import EngineError
from engine.experts import followers
from engine.experts.couplings import FOLLOWERS, ROOM, Couplings, Rows, format_lines
from engine.experts.followers import PairLine, PairsReader, PairsRefused, read_followers
from engine.experts.guesses import PairGuesses
from engine.experts.pair_history import PairHistory
from engine.experts.pair_learner import PairLearner
from engine.experts.pairs import write_pairs
from engine.experts.recent import RecentChoices
from engine.experts.trace_reader import TraceReader
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

LAYERS, EXPERTS = 3, 6
ROUTED = frozenset(range(LAYERS))


def history(path: Path | None, *, learn: bool = True, seed: Path | None = None) -> PairHistory:
    return PairHistory(path, LAYERS, EXPERTS, ROUTED, learn=learn, seed=seed)


def rows(*chosen: list[int], clock: list[int] | None = None) -> Rows:
    """What tokens chose in a layer, each in a forward of its own unless `clock` says otherwise."""
    width = max(map(len, chosen))
    ids = np.array([[*row, *[0] * (width - len(row))] for row in chosen], np.int32)
    kept = np.array([len(row) for row in chosen], np.int32)
    return Rows(ids, kept, np.array(clock or range(1, len(chosen) + 1), np.uint32))


def once(e: int = 0, f: int = 1) -> object:
    return lambda couplings: couplings.count(0, 1, rows([e]), rows([f]))


@pytest.fixture(autouse=True)
def _worth_foreseeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the models of these tests as if their experts were large."""
    monkeypatch.setattr("engine.experts.async_reader.SMALL", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".coli_pairs"


# Reading

lines = st.lists(
    st.builds(
        PairLine,
        st.integers(0, 9999),
        st.integers(1, 2),
        st.integers(0, 9999),
        st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 2**32 - 1)), min_size=1, max_size=16),
    )
)


@given(lines=lines)
def test_what_is_written_is_read(lines: list[PairLine], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("pairs") / "pairs"
    path.write_bytes(format_lines(lines))
    reader = PairsReader(path)
    assert list(reader) == lines
    assert reader.complaints == []


@given(
    junk=st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=8),
    place=st.integers(0, 8),
    head=st.integers(0, 30),
)
def test_any_bytes_are_skipped_or_refused(
    junk: list[bytes], place: int, head: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("pairs") / "pairs"
    good = b"0 1 2 3:4"
    content = [f"COLIPAIRS 1 {head}".encode(), *junk[:place], good, *junk[place:]]
    path.write_bytes(b"\n".join(content))
    reader = PairsReader(path)
    assert PairLine(0, 1, 2, [(3, 4)]) in list(reader)
    assert all(text.isprintable() for text in reader.complaints)
    known = Couplings(LAYERS, EXPERTS)
    known.take(PairsReader(path), ROUTED)
    assert known.ids.max() < EXPERTS
    path.write_bytes(b"\n".join([*junk, good]))
    with pytest.raises(PairsRefused) as refused:
        list(PairsReader(path))
    assert str(refused.value).isprintable()


def test_what_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(PairsReader(path)) == []
    path.write_bytes(b"")
    assert list(PairsReader(path)) == []
    path.write_bytes(b"COLIPAIRS 2 0\n")
    with pytest.raises(PairsRefused, match="version 2"):
        read_followers(path)
    monkeypatch.setattr(followers, "FILE_MAX", 10)
    with pytest.raises(PairsRefused, match="larger than 10"):
        read_followers(path)
    with pytest.raises(PairsRefused, match="regular"):
        read_followers(path.parent)


def test_a_file_of_countless_lines_is_refused_soon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "LINES_MAX", 3)
    path.write_bytes(b"COLIPAIRS 1 3\n" + b"0 1 0 1:5\n" * 3)
    assert len(list(PairsReader(path))) == 3
    for more in (b"0 1 0 1:5\n", b"junk\n"):
        path.write_bytes(b"COLIPAIRS 1 3\n" + b"0 1 0 1:5\n" * 3 + more)
        with pytest.raises(PairsRefused, match="more than 3 lines"):
            list(PairsReader(path))


def test_what_a_file_says_twice(path: Path) -> None:
    path.write_text("COLIPAIRS 1 3\n0 1 0 1:9\n1 1 2 4:3 0:5 4:3 5:5\n0 1 0 2:4294967295 3:1 2:4294967295\n")
    assert list(history(path).couplings.lines()) == [
        PairLine(0, 1, 0, [(2, 2**32 - 1), (3, 1)]),
        PairLine(1, 1, 2, [(4, 6), (0, 5), (5, 5)]),
    ]


def test_a_file_that_was_cut_or_has_endless_lines(path: Path) -> None:
    path.write_bytes(b"COLIPAIRS 1 3\n0 1 2 3:4\n0 1 3 " + b"5:6 " * 5000 + b"\n0 1 4 5:6\n0 1 5 5:")
    reader = PairsReader(path)
    assert [line.expert for line in reader] == [2, 4]
    assert reader.complaints == ["skipped 2 malformed line(s)", "its head announces 3 lines, it has 4"]


def test_pairs_of_another_model_are_left_out(path: Path) -> None:
    path.write_text("COLIPAIRS 1 4\n0 1 2 3:4 9:9\n0 1 9 1:2\n2 1 0 1:2\n0 2 1 0:7\n")
    pairs = history(path)
    assert pairs.notices == (f"{path}: ignored 3 follower(s) of layers or experts not in this model",)
    assert list(pairs.couplings.lines()) == [PairLine(0, 1, 2, [(3, 4)]), PairLine(0, 2, 1, [(0, 7)])]


# Counting


@settings(deadline=None)
@given(
    tokens=st.lists(
        st.tuples(*[st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=3, unique=True)] * 2),
        min_size=1,
        max_size=30,
    ),
    cut=st.integers(0, 30),
)
def test_counts_in_order_of_frequency_then_of_appearance(tokens: list[tuple[list[int], list[int]]], cut: int) -> None:
    """In two pieces or in one, it comes to the same."""
    couplings, bag = Couplings(2, EXPERTS), {e: Bag[int]() for e in range(EXPERTS)}
    for part in (tokens[:cut], tokens[cut:]):
        if part:
            couplings.count(0, 1, rows(*(first for first, _ in part)), rows(*(second for _, second in part)))
    for first, second in tokens:
        for e in first:
            bag[e].update(second)  # a bag keeps the order in which things came
    expected = [PairLine(0, 1, e, sorted(bag[e].items(), key=lambda item: -item[1])) for e in bag if bag[e]]
    assert list(couplings.lines()) == expected


def test_rows_that_one_layer_lacks_are_no_pairs() -> None:
    """A forward was stopped between two layers."""
    couplings = Couplings(2, EXPERTS)
    couplings.count(0, 1, rows([0], [1], [2], clock=[5, 6, 7]), rows([3], [4], clock=[5, 7]))
    assert list(couplings.lines()) == [PairLine(0, 1, 0, [(3, 1)]), PairLine(0, 1, 2, [(4, 1)])]


def test_more_is_remembered_than_is_written() -> None:
    couplings = Couplings(2, 100)
    couplings.count(0, 1, rows([0]), rows(list(range(80))))
    for _ in range(2):
        couplings.count(0, 1, rows([0]), rows([ROOM - 1]))
    (line,) = couplings.lines()
    assert line.followers == [(ROOM - 1, 3), *((e, 1) for e in range(FOLLOWERS - 1))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 24, "num_hidden_layers": 4}
    return write(tmp_path_factory.mktemp("pairs") / "model", replace(olmoe, config=config))


def answer(engine: Engine, start: int, tokens: int = 20) -> None:
    engine.forget()
    prompt = [(7 * n * n + 5 * n + start) % 50 for n in range(30)]
    assert list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))


def opened(model: Path, folder: Path, **options: object) -> Engine:
    options = {"threads": 1, "context": 256, "cap": 6, "history": str(folder / ".coli_usage"), **options}
    return Engine.open(model, EngineOptions(**options))  # type: ignore[arg-type]


def test_a_profile_learns_what_its_trace_says(model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with opened(model, tmp_path, route_trace=str(trace)) as engine:
        for start in range(3):
            answer(engine, start)
    write_pairs(TraceReader(trace), tmp_path / "expected")
    assert (tmp_path / ".coli_pairs").read_bytes() == (tmp_path / "expected").read_bytes()


def test_who_learns_and_who_does_not(model: Path, tmp_path: Path) -> None:
    pairs = tmp_path / ".coli_pairs"
    with opened(model, tmp_path, learn=False) as engine:
        answer(engine, 0)
    with opened(model, tmp_path, usage=str(tmp_path / "named")) as engine:
        answer(engine, 0)
    assert not pairs.exists()
    other = tmp_path / "other"
    other.mkdir()
    with opened(model, tmp_path) as engine:
        answer(engine, 0)
        learned = pairs.read_bytes()
        engine.repin_for(other / ".coli_usage")
        answer(engine, 1)
    assert pairs.read_bytes() == learned
    assert (other / ".coli_pairs").read_bytes() != learned


def test_native_code_guesses_by_the_tables(model: Path, tmp_path: Path) -> None:
    with opened(model, tmp_path, looka=True) as engine:
        answer(engine, 0, 60)
        tables, recent, width = engine._learning.pairs.guesses, engine.model.placement.recent, engine.spec.top_k
        before = [array.copy() for array in (tables.ids, tables.weights, tables.base, tables.rest)]
        answer(engine, 1)
        foreseen = engine.model._foresight
        for layer in range(3):
            ids, weights, base, rest = (array[layer] for array in before)
            chosen = recent.since(layer, int(recent.count[layer]) - 1).ids[0]
            score = base + width * rest
            for e in chosen:
                listed = ids[e] >= 0
                score[ids[e, listed]] += weights[e, listed]
            best = np.argsort(-score, kind="stable")[:width]
            assert foreseen.of(Foreseer.PAIRS, layer + 1) == best.tolist()


def test_both_begin_with_whom_both_name(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(model, tmp_path, looka=True, pilot=True, pilot_by="both") as engine:
        answer(engine, 0, 60)
        assert engine.model.trial is not None
        monkeypatch.setattr(engine.model.trial, "note", lambda seconds: None)
        engine.model.trial.by = Foreseer.BOTH
        answer(engine, 1, 7)
        foreseen = engine.model._foresight
        for layer in range(1, 4):
            router, pairs, both = (foreseen.of(by, layer) for by in list(Foreseer)[1:])
            agreed = [e for e in router if e in pairs]
            rest = [e for e in router if e not in pairs] + [e for e in pairs if e not in router]
            assert both == agreed + rest


def test_a_coupling_is_foreseen() -> None:
    """Two halves of the experts follow themselves; expert 0 is used by all."""
    couplings, random = Couplings(2, 40), np.random.default_rng(1)
    half = random.integers(0, 2, 400)
    first, second = (
        np.stack([np.append(0, 1 + 19 * h + random.choice(19, 3, replace=False)) for h in half]) for _ in range(2)
    )
    clock, kept = np.arange(1, 401, dtype=np.uint32), np.full(400, 4, np.int32)
    couplings.count(0, 1, Rows(first.astype(np.int32), kept, clock), Rows(second.astype(np.int32), kept, clock))
    tables = PairGuesses(2, 40)
    tables.update(couplings, [0, 1], [40, 40])
    assert tables.known.tolist() == [1, 0]
    for h in (0, 1):
        score = tables.base[0] + 4 * tables.rest[0]
        for e in first[half == h][0]:
            listed = tables.ids[0, e] >= 0
            score[tables.ids[0, e, listed]] += tables.weights[0, e, listed]
        best = np.argsort(-score)[:10]
        assert 0 in best
        assert all(e == 0 or (e - 1) // 19 == h for e in best)


# Keeping


def test_two_programs_add_up(path: Path) -> None:
    first, second = history(path), history(path)
    first.save(once())
    second.save(once())
    first.save(once(0, 2))
    assert path.read_text() == "COLIPAIRS 1 1\n0 1 0 1:2 2:1\n"


def _learn(path: Path, times: int) -> None:
    pairs = history(path)
    for _ in range(times):
        pairs.save(once())


def test_two_processes_at_once_lose_nothing(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_learn, args=(path, 25)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert read_followers(path) == {(0, 0): [(1, 50)]}


def test_a_reset_stays_one(path: Path) -> None:
    pairs = history(path)
    pairs.save(once())
    path.unlink()
    pairs.save(once(1, 2))
    assert path.read_text() == "COLIPAIRS 1 1\n0 1 1 2:1\n"


def test_a_save_that_failed_is_made_up_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = history(path)
    pairs.save(once())
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("engine.experts.pair_history.replace_file", full)
        with pytest.raises(EngineError, match="No space left on device"):
            pairs.save(once(0, 2))
    assert path.read_bytes() == before
    pairs.save(lambda couplings: couplings.count(0, 1, rows([0], [0]), rows([2], [3])))
    assert path.read_text() == "COLIPAIRS 1 1\n0 1 0 1:1 2:1 3:1\n"


def test_what_could_not_be_saved_is_not_another_profiles(tmp_path: Path) -> None:
    recent = RecentChoices(2, 1)
    learner = PairLearner(history(tmp_path / "folder" / ".coli_pairs"), recent, {0: (1, EXPERTS), 1: (1, EXPERTS)})
    (tmp_path / "folder").write_text("in the way")
    recent.count[:], recent.kept[:, 0], recent.clock[:, 0] = 1, 1, 1
    with pytest.raises(EngineError, match="not saved"):
        learner.after_turn()
    learner.follow(history(tmp_path / ".coli_pairs"))
    learner.after_turn()
    assert not (tmp_path / ".coli_pairs").exists()


@pytest.mark.parametrize("content", [b"junk", b"COLIPAIRS 9 1\n0 1 0 1:1\n", b"\0" * 100])
def test_a_refused_file_is_kept(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    frozen = history(path, learn=False)
    frozen.save(once())
    assert path.read_bytes() == content
    pairs = history(path)
    assert "no pairs are known" in pairs.notices[0]
    (told,) = pairs.save(once())
    (kept,) = path.parent.glob(".coli_pairs.refused-*")
    assert kept.read_bytes() == content
    assert kept.name in told
    assert path.read_text() == "COLIPAIRS 1 1\n0 1 0 1:1\n"


def test_a_file_not_wholly_understood_is_copied(path: Path) -> None:
    content = "COLIPAIRS 1 2\n0 1 0 1:1\nwhat is this\n"
    path.write_text(content)
    (told,) = history(path).save(once())
    (kept,) = path.parent.glob(".coli_pairs.refused-*")
    assert kept.read_text() == content
    assert kept.name in told
    assert read_followers(path) == {(0, 0): [(1, 2)]}


def test_a_folder_that_cannot_be_read(path: Path) -> None:
    path.mkdir()
    assert "regular" in history(path).notices[0]
    assert history(None).save(once()) == ()


def test_the_models_own_file_begins_a_profiles(path: Path) -> None:
    seed = path.with_name("seed")
    seed.write_text("COLIPAIRS 1 1\n0 1 0 1:5\n")
    history(path, seed=seed).save(once())
    assert read_followers(path) == {(0, 0): [(1, 6)]}
    seed.write_text("COLIPAIRS 1 1\n0 1 0 1:500\n")
    history(path, seed=seed).save(once())
    assert read_followers(path) == {(0, 0): [(1, 7)]}


def test_another_file_is_added(path: Path) -> None:
    history(path).save(once())
    other = path.with_name("other")
    other.write_text("COLIPAIRS 1 2\n0 1 0 2:3 1:1 7:1\n0 2 1 4:4\n")
    lines, notices = history(path).add(other)
    assert lines == 2
    assert notices == (f"{other}: ignored 1 follower(s) of layers or experts not in this model",)
    assert path.read_text() == "COLIPAIRS 1 2\n0 1 0 2:3 1:2\n0 2 1 4:4\n"
    with pytest.raises(EngineError, match="no such file"):
        history(path).add(path.with_name("missing"))
