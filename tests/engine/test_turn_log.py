"""The log of turns: what is appended comes back, whatever else stands in the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import turn_log
from engine.events import Hits
from engine.turn_log import LoggedTurn, append_turn, read_turns

TURN = LoggedTurn(
    at=1764500000.5,
    prompt=31,
    tokens=21,
    hits=Hits(10, 60, 30),
    prefill_hits=Hits(0, 5, 9),
    bytes_read=3_000,
    decode_bytes=2_000,
    tok_s=12.5,
    cap=20,
    pinned=4,
    memory=1_000_000,
)


def test_turns_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "turns.jsonl"
    assert read_turns(path) == []
    turns = [replace(TURN, prompt=n) for n in range(5)]
    for turn in turns:
        append_turn(path, turn)
    assert read_turns(path) == turns
    assert read_turns(path, last=2) == turns[3:]
    assert read_turns(path, last=0) == []


def test_figures() -> None:
    assert TURN.hit_rate == pytest.approx(0.7)
    assert TURN.bytes_a_token == pytest.approx(100.0)
    short = replace(TURN, tokens=1, hits=Hits())
    assert short.hit_rate is None
    assert short.bytes_a_token is None


@given(st.lists(st.binary(max_size=40)))
def test_foreign_lines_are_skipped(tmp_path_factory: pytest.TempPathFactory, junk: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("log") / "turns.jsonl"
    append_turn(path, TURN)
    with path.open("ab") as file:
        for piece in junk:
            file.write(piece + b"\n")
    append_turn(path, replace(TURN, prompt=2))
    assert read_turns(path) == [TURN, replace(TURN, prompt=2)]


@pytest.mark.parametrize(
    "wrong", ['"hits": [1, 2]', '"hits": [-1, 2, 3]', '"tokens": 1e3', '"tokens": true', '"tok_s": NaN', '"at": "x"']
)
def test_a_line_with_a_wrong_value_is_none(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "turns.jsonl"
    append_turn(path, TURN)
    path.write_text(path.read_text() + path.read_text().replace("}\n", f", {wrong}}}\n"))
    assert read_turns(path) == [TURN]


def test_an_unfinished_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    append_turn(path, TURN)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    append_turn(path, replace(TURN, prompt=2))
    assert read_turns(path) == [TURN, replace(TURN, prompt=2)]


def test_the_file_stays_small_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_log, "SIZE_MAX", 4096)
    path = tmp_path / "turns.jsonl"
    for n in range(100):
        append_turn(path, replace(TURN, prompt=n))
        assert path.stat().st_size <= 4096
    prompts = [turn.prompt for turn in read_turns(path)]
    assert prompts == list(range(prompts[0], 100))
    assert len(prompts) > 5


_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from engine import turn_log
from tests.engine.test_turn_log import TURN
turn_log.SIZE_MAX = int(sys.argv[3])
for n in range(int(sys.argv[2]), 1 << 30):
    turn_log.append_turn(Path(sys.argv[1]), replace(TURN, prompt=n))
    print(n, flush=True)
"""


def test_two_writers_and_a_kill_lose_no_turn_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(start), str(1 << 20)], stdout=subprocess.PIPE, text=True
        )
        for start in (0, 1_000_000)
    ]
    said = []
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(10):
            said.append(int(writer.stdout.readline()))
    time.sleep(0.02)
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.communicate()[0]
        said += [int(line) for line in rest.split("\n")[:-1]]
    written = [turn.prompt for turn in read_turns(path)]
    assert set(said) <= set(written)
    assert len(written) <= len(said) + 2
