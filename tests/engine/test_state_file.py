"""A conversation's state in a file: taken up as if it had never been left, or refused by one line."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, EngineOptions, Prefill, Token, state_file
from engine.board import Counter
from engine.errors import StateError
from engine.options import Lossy
from tests.oracle.answers import greedy
from tests.oracle.checkpoints import Folder

ADDRESSED = ["olmoe", "jetmoe", "deepseek_v2_lite", "deepseek_v32-long"]
WINDOWED = ["gpt_oss-long", "llama4-long", "gemma4-long"]
RECURRENT = ["qwen3_next-long", "lfm2_moe-long"]
PROMPT = [(11 * n * n + 3 * n + 1) % 103 for n in range(190)]
MORE = [5, 17, 23, 4, 31]


@pytest.fixture(autouse=True)
def _small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.model.strips.MOST_ROWS", 16)
    monkeypatch.setattr("engine.plan.CHUNKS", (16,))


def turn(engine: Engine, prompt: list[int], tokens: int) -> tuple[list[int], int]:
    """The answer, and how many ids of the prompt were read for it."""
    events = list(engine.generate(prompt, max_tokens=tokens, ignore_eos=True))
    assert isinstance(events[0], Prefill)
    return [event.id for event in events if isinstance(event, Token)], events[0].total


@pytest.mark.parametrize("contexts", [(2048, 2048), (2048, 340), (340, 2048)], ids=str)
@pytest.mark.parametrize("name", [*ADDRESSED, *WINDOWED, *RECURRENT])
def test_another_engine_goes_on(name: str, contexts: tuple[int, int], folder: Folder, tmp_path: Path) -> None:
    """With experts placed otherwise and in another context; what comes next, and what is asked again, is read only."""
    file = tmp_path / "new folder" / "one.state"
    with Engine.open(folder(name), EngineOptions(context=contexts[0])) as engine:
        first, _ = turn(engine, PROMPT, 100)
        saved = engine.save_state(file)
        longer = [*PROMPT, *first, *MORE]
        second, _ = turn(engine, longer, 6)
    assert (saved.done, saved.tokens, saved.nbytes) == ("saved", len(PROMPT) + 99, file.stat().st_size)
    with Engine.open(folder(name), EngineOptions(context=contexts[1], cap=1)) as engine:
        loaded = engine.load_state(file)
        assert (loaded.done, loaded.tokens, loaded.nbytes) == ("loaded", saved.tokens, saved.nbytes)
        assert engine.board.counters[Counter.CONTEXT_USED] == saved.tokens
        again = tmp_path / "again"
        engine.save_state(again)
        assert again.read_bytes() == file.read_bytes()
        assert turn(engine, longer, 6) == (second, len(MORE) + 1)
        engine.load_state(file)
        assert turn(engine, PROMPT, 9) == (first[:9], 1 if name in ADDRESSED else 8)
        engine.load_state(file)
        edited = [*PROMPT[:100], *MORE]
        answer, read = turn(engine, edited, 5)
        assert read == (5 if name in ADDRESSED else 105)
        engine.forget()
        assert engine.board.counters[Counter.CONTEXT_USED] == 0
        assert answer == greedy(engine, edited, 5)


def test_numbers_of_half_the_size(folder: Folder, tmp_path: Path) -> None:
    with Engine.open(folder("gpt_oss-long"), EngineOptions(kv="f16", context=512)) as engine:
        first, _ = turn(engine, PROMPT, 5)
        half = engine.save_state(tmp_path / "half")
        second, _ = turn(engine, [*PROMPT, *first, *MORE], 5)
        engine.load_state(tmp_path / "half")
        assert turn(engine, [*PROMPT, *first, *MORE], 5) == (second, len(MORE) + 1)
    with Engine.open(folder("gpt_oss-long"), EngineOptions(kv="f32", context=512)) as engine:
        turn(engine, PROMPT, 5)
        assert engine.save_state(tmp_path / "whole").nbytes > 1.8 * half.nbytes


@pytest.fixture(scope="module")
def kept(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Path]]:
    """An engine with a conversation, and the file of its state."""
    file = tmp_path_factory.mktemp("kept") / "one.state"
    with Engine.open(folder("olmoe"), EngineOptions(context=512)) as engine:
        turn(engine, PROMPT[:30], 5)
        engine.save_state(file)
        yield engine, file


def refusal(engine: Engine, file: Path) -> str:
    """The line that a file is refused with; it names the file."""
    with pytest.raises(StateError) as caught:
        engine.load_state(file)
    text = str(caught.value)
    assert text.startswith(f"{file}: ")
    assert "\n" not in text
    return text


def with_header(file: Path, target: Path, **changes: Any) -> Path:
    """A copy with another header; sizes and checksum stay."""
    data = file.read_bytes()
    length = int.from_bytes(data[8:12], "little")
    header = json.dumps({**json.loads(data[12 : 12 + length]), **changes}).encode()
    target.write_bytes(data[:8] + len(header).to_bytes(4, "little") + header + data[12 + length :])
    return target


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "another version"),
        ({"model": "0" * 32}, "another model"),
        ({"kv": "f16"}, "not f32"),
        ({"top_k": 1}, "other experts"),
        ({"top_p": 0.5}, "other experts"),
        ({"tokens": 513}, "513 tokens, the context window 512"),
        ({"tokens": 33}, "its size"),
        ({"tokens": -1}, "no sense"),
        ({"tokens": True}, "no sense"),
        ({"tokens": "many"}, "no sense"),
        ({"mark": 34}, "no sense"),
        ({"mark": -1}, "no sense"),
    ],
)
def test_what_does_not_fit_is_refused(
    changes: dict[str, Any], why: str, kept: tuple[Engine, Path], tmp_path: Path
) -> None:
    """At first sight: the conversation that is held stays."""
    engine, file = kept
    turn(engine, PROMPT[:30], 5)
    assert why in refusal(engine, with_header(file, tmp_path / "changed", **changes))
    assert len(engine.conversation.ids) == 34


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused(data: st.DataObject, kept: tuple[Engine, Path]) -> None:
    """Any byte changed, any length."""
    engine, file = kept
    whole = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        near = data.draw(st.integers(0, 400) | st.integers(0, len(whole) - 1))
        whole[near] ^= data.draw(st.integers(1, 255))
    else:
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    damaged = file.with_name("damaged")
    damaged.write_bytes(whole)
    refusal(engine, damaged)
    assert greedy(engine, PROMPT[:30], 3) == greedy(engine, PROMPT[:30], 3)


def test_after_a_wrong_checksum_nothing_is_held(kept: tuple[Engine, Path]) -> None:
    """Some of it was in memory already."""
    engine, file = kept
    answer, _ = turn(engine, PROMPT[:30], 5)
    whole = bytearray(file.read_bytes())
    whole[-100] ^= 1
    damaged = file.with_name("damaged")
    damaged.write_bytes(whole)
    assert "checksum" in refusal(engine, damaged)
    assert turn(engine, PROMPT[:30], 5) == (answer, 30)


def test_what_is_no_state(kept: tuple[Engine, Path], tmp_path: Path) -> None:
    engine, _ = kept
    (tmp_path / "text").write_text("Dear diary, " * 100)
    assert "not the state" in refusal(engine, tmp_path / "text")
    (tmp_path / "empty").touch()
    assert "not the state" in refusal(engine, tmp_path / "empty")
    assert "No such file" in refusal(engine, tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    assert "ordinary" in refusal(engine, tmp_path / "pipe")
    assert "ordinary" in refusal(engine, tmp_path)


def test_a_model_whose_weights_changed_is_another(folder: Folder, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder("olmoe"), model)
    with Engine.open(model) as engine:
        turn(engine, PROMPT[:30], 5)
        engine.save_state(tmp_path / "state")
    with Engine.open(model) as engine:
        assert engine.load_state(tmp_path / "state").tokens == 34
    weights = next(model.glob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with Engine.open(model) as engine:
        assert "before its files were changed" in refusal(engine, tmp_path / "state")


def test_other_limits_make_another_state(folder: Folder, tmp_path: Path) -> None:
    """Also those that are set while the engine is open."""
    with Engine.open(folder("olmoe"), EngineOptions(context=512)) as engine:
        engine.limit(Lossy(top_k=1))
        turn(engine, PROMPT[:30], 5)
        engine.save_state(tmp_path / "state")
        engine.limit(Lossy())
        assert "other experts" in refusal(engine, tmp_path / "state")
        engine.limit(Lossy(top_k=1))
        assert engine.load_state(tmp_path / "state").tokens == 34


def test_no_conversation_is_not_kept(folder: Folder, tmp_path: Path) -> None:
    with Engine.open(folder("olmoe")) as engine, pytest.raises(StateError, match="no conversation"):
        engine.save_state(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_file_before(
    kept: tuple[Engine, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, file = kept
    target = Path(shutil.copy(file, tmp_path / "state"))
    turn(engine, PROMPT[:30], 5)
    parts = state_file._all

    def some(*arguments: Any) -> Iterator[Any]:
        yield from list(parts(*arguments))[:4]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_file, "_all", some)
    with pytest.raises(StateError, match=r"state: the context cannot be kept \(No space left"):
        engine.save_state(target)
    assert target.read_bytes() == file.read_bytes()
    assert list(tmp_path.iterdir()) == [target]


def test_the_last_of_the_disk_is_left_to_others(
    kept: tuple[Engine, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = kept
    turn(engine, PROMPT[:30], 5)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 10**8, 10**8))
    with pytest.raises(StateError, match="no space left"):
        engine.save_state(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


def test_no_more_than_is_allowed(kept: tuple[Engine, Path], tmp_path: Path) -> None:
    engine, file = kept
    engine.load_state(file)
    size = file.stat().st_size
    with pytest.raises(StateError, match="allowed"):
        engine.save_state(tmp_path / "state", size - 1)
    assert list(tmp_path.iterdir()) == []
    assert engine.save_state(tmp_path / "state", size).nbytes == size


def test_what_a_killed_writer_left_is_removed_in_time(kept: tuple[Engine, Path], tmp_path: Path) -> None:
    engine, _ = kept
    turn(engine, PROMPT[:30], 5)
    old, young = tmp_path / "state.aaaa.new", tmp_path / "state.bbbb.new"
    old.touch()
    young.touch()
    os.utime(old, (0, time.time() - 4000))
    engine.save_state(tmp_path / "state")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "state.bbbb.new"]
