"""Files that change under a running model: the turn ends with one line, nothing hangs, the engine goes on or closes."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from engine import Engine, EngineOptions, Token, Turn
from engine.board import Counter, Phase
from engine.errors import ReadError
from tests.oracle import containers
from tests.oracle.answers import Expected, greedy
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

NAME = "qwen3_moe"  # three shards
PATIENCE = 60.0


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected.load(NAME)


def failing_turn(engine: Engine, prompt: list[int]) -> tuple[list[int], Turn, str]:
    """Run a turn that fails. Returns its tokens, its end and the error, which must come in time."""
    tokens: list[int] = []
    ends: list[Turn] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            for event in engine.generate(prompt, max_tokens=20, ignore_eos=True):
                if isinstance(event, Token):
                    tokens.append(event.id)
                if isinstance(event, Turn):
                    ends.append(event)
        except ReadError as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the turn hangs"
    assert len(errors) == len(ends) == 1
    assert str(errors[0]).isprintable()
    assert engine.board.counters[Counter.PHASE] == Phase.IDLE
    return tokens, ends[0], str(errors[0])


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("cap", [1, 4])
def test_a_file_cut_short(cap: int, direct: bool, expected: Expected, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", CASES[NAME])
    shard = folder / "model-00002-of-00003.safetensors"
    content = shard.read_bytes()
    with Engine.open(folder, EngineOptions(cap=cap, direct=direct)) as engine:
        os.truncate(shard, 9000)
        _, end, said = failing_turn(engine, expected.prompt)
        assert (end.tokens, end.stop) == (0, "error")
        assert f"{shard}: ends at" in said
        assert "was it changed?" in said
        assert failing_turn(engine, expected.prompt)[1].stop == "error"
        shard.write_bytes(content)
        assert greedy(engine, expected.prompt) == expected.answer.greedy


def test_a_file_cut_short_in_the_middle_of_an_answer(expected: Expected, tmp_path: Path) -> None:
    """What was said before stays in the conversation; the answer goes on once the file is whole."""
    folder = write(tmp_path / "model", CASES[NAME])
    shards = sorted(folder.glob("*.safetensors"))
    contents = [shard.read_bytes() for shard in shards]
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        turn = engine.generate(expected.prompt, max_tokens=20, ignore_eos=True)
        told: list[int] = []
        while len(told) < 5:
            event = next(turn)
            if isinstance(event, Token):
                told.append(event.id)
        assert told == expected.answer.greedy[:5]
        for shard in shards:
            os.truncate(shard, 100)
        end = next(turn)
        assert isinstance(end, Turn)
        assert (end.tokens, end.stop) == (5, "error")
        with pytest.raises(ReadError):
            next(turn)
        for shard, content in zip(shards, contents, strict=True):
            shard.write_bytes(content)
        events = list(engine.generate([*expected.prompt, *told], max_tokens=4, ignore_eos=True))
        assert [event.id for event in events if isinstance(event, Token)] == expected.answer.greedy[5:9]


def test_logits_of_a_file_cut_short(expected: Expected, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", CASES[NAME])
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        for shard in folder.glob("*.safetensors"):
            os.truncate(shard, 100)
        with pytest.raises(ReadError):
            engine.logits(expected.prompt)
        assert engine.board.counters[Counter.PHASE] == Phase.IDLE


def test_a_folder_renamed(expected: Expected, tmp_path: Path) -> None:
    """Open files stay open, whatever they are called now."""
    folder = write(tmp_path / "model", CASES[NAME])
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        folder.rename(tmp_path / "elsewhere")
        assert greedy(engine, expected.prompt, 5) == expected.answer.greedy[:5]


def test_a_container_renamed(tmp_path: Path) -> None:
    """A container's experts have files of their own; they are opened with the model, not with the first expert."""
    case = CASES["olmoe"]
    folder = containers.write(tmp_path / "model", case, "int8")
    prompt = Expected.load("olmoe").prompt
    with Engine.open(folder) as engine:
        answer = greedy(engine, prompt, 5)
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        folder.rename(tmp_path / "elsewhere")
        assert greedy(engine, prompt, 5) == answer


@pytest.mark.parametrize("shared_board", [True, False])
def test_a_file_cut_while_it_is_opened(shared_board: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening fails and leaves nothing behind: no thread, no open file, no shared memory."""
    folder = write(tmp_path / "model", CASES[NAME])
    shard = folder / "model-00003-of-00003.safetensors"
    before = open_files(folder)
    monkeypatch.setattr("engine.engine.load_kernels", lambda _: os.truncate(shard, 2000))
    with pytest.raises(ReadError, match="was it changed"):
        Engine.open(folder, EngineOptions(route_trace=str(tmp_path / "trace")), shared_board=shared_board)
    assert open_files(folder) == before == []


def open_files(folder: Path) -> list[str]:
    """This process's open files in a folder, by the system's own account; nothing where it gives none."""
    descriptors = Path("/proc/self/fd")
    links = [os.readlink(link) for link in descriptors.iterdir() if link.is_symlink()] if descriptors.is_dir() else []
    return [link for link in links if link.startswith(str(folder.parent))]
