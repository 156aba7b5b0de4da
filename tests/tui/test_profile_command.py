"""`colibri-tui profile`: what it changes, and that nothing learned is lost by accident."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_tui import paths, profiles
from colibri_tui.cli import main
from colibri_tui.histories import pairs_path
from colibri_tui.launch import launch
from engine.events import Hits
from engine.experts.history import UsageHistory
from engine.experts.usage import Counts, format_usage, read_usage
from engine.turn_log import LoggedTurn, append_turn, log_path, read_turns
from tests.oracle.cases import CASES

LAYERS, EXPERTS = 2, 8
PAIRS = "COLIPAIRS 1 1\n0 1 2 3:4\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def model(home: Path) -> Path:
    """An installed model: what is asked of it is its configuration."""
    folder = paths.models_dir() / "small"
    folder.mkdir(parents=True)
    config = {**CASES["olmoe"].config, "num_experts": EXPERTS, "num_hidden_layers": LAYERS}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def counts(**cells: int) -> Counts:
    """Counts by "L_E"."""
    found = np.zeros((LAYERS, EXPERTS), np.uint32)
    for cell, count in cells.items():
        layer, expert = cell[1:].split("_")
        found[int(layer), int(expert)] = count
    return found


def learn(profile: str, model: Path, learned: Counts) -> Path:
    path = profiles.usage_path(profile, profiles.model_key(model))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(format_usage(learned, LAYERS, "olmoe"))
    return path


def known(path: Path) -> list[list[int]]:
    usage = read_usage(path, LAYERS, EXPERTS, "olmoe", frozenset(range(LAYERS + 1)))
    return [[*map(int, cell), int(usage.counts[tuple(cell)])] for cell in np.argwhere(usage.counts)]


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["profile", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *arguments, "--json"))
    return found


def turn(pin: int, disk: int, **other: Any) -> LoggedTurn:
    values = {"at": 1.7e9, "prompt": 3, "tokens": 11, "bytes_read": 9, "decode_bytes": 5_000_000, "tok_s": 4.0,
              "cap": 2, "pinned": 1, "memory": 10**9, **other}  # fmt: skip
    return LoggedTurn(hits=Hits(pin, 0, disk), prefill_hits=Hits(), **values)


def test_create_list_and_switch(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    run(capsys, "create", "my work")
    learn("my work", model, counts(l0_1=7, l1_2=3))
    listed = json_of(capsys, "list")
    assert listed["current"] == "default"
    assert list(listed["profiles"]) == ["default", "coding", "chat", "my work"]
    (entry,) = listed["profiles"]["my work"]
    assert (entry["selections"], entry["experts"], entry["frozen"], entry["turns"]) == (10, 2, False, 0)
    run(capsys, "switch", "my work")
    assert json_of(capsys, "list")["current"] == "my work"
    assert launch("x:y", {}).profile == "my work"
    assert launch("x:y", {}, profile="chat").profile == "chat"
    assert "small" in run(capsys, "list")


def test_a_profile_that_is_gone_is_no_longer_current(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "create", "work")
    run(capsys, "switch", "work")
    run(capsys, "rename", "work", "labour")
    assert launch("x:y", {}).profile == "labour"
    run(capsys, "delete", "labour", "--yes")
    assert launch("x:y", {}).profile == "default"


def test_the_settings_win_over_a_switch(capsys: pytest.CaptureFixture[str]) -> None:
    paths.settings_path().parent.mkdir(parents=True)
    paths.settings_path().write_text('[ui]\nprofile = "chat"\n')
    assert "profile = 'chat'" in run(capsys, "switch", "coding", code=1)


def test_show_draws_the_learning_curve(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    path = learn("coding", model, counts(l0_1=7))
    for percent in (10, 20, 95):
        append_turn(log_path(path), turn(percent, 100 - percent))
    (shown,) = json_of(capsys, "show", "coding")["models"]
    assert [entry["hit_rate"] for entry in shown["log"]] == [0.1, 0.2, 0.95]
    assert shown["log"][0]["bytes_a_token"] == 500_000
    out = run(capsys, "show", "coding")
    assert "▁▂█  10 % first, 95 % last" in out
    assert "too little for --pin auto" in out
    assert "learned nothing" in run(capsys, "show", "chat")


def test_rename_and_delete(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    path = learn("chat", model, counts(l0_1=7))
    run(capsys, "rename", "chat", "talk")
    assert not path.exists()
    assert known(profiles.usage_path("talk", profiles.model_key(model))) == [[0, 1, 7]]
    assert "exists already" in run(capsys, "rename", "talk", "Coding", code=1)
    assert "Nobody is here to ask" in run(capsys, "delete", "talk", code=1)
    run(capsys, "delete", "talk", "--yes")
    assert profiles.list_profiles() == list(profiles.BUILT_IN)
    assert "no profile 'talk'" in run(capsys, "show", "talk", code=1)


def test_reset_forgets_the_history_its_turns_and_the_memories(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    path, other = learn("chat", model, counts(l0_1=7)), learn("coding", model, counts(l0_1=7))
    append_turn(log_path(path), turn(1, 1))
    memories = paths.conversation_states_dir() / profiles.model_key(model)
    memories.mkdir(parents=True)
    (memories / "1.kv").write_text("x")
    pairs_path(path).write_text(PAIRS)
    run(capsys, "reset", "chat", "--yes")
    assert not pairs_path(path).exists()
    assert path.read_bytes() == b""
    assert read_turns(log_path(path)) == []
    assert not memories.exists()
    assert known(other) == [[0, 1, 7]]


def test_a_reset_takes_nothing_from_a_running_engine(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    path = learn("chat", model, counts(l0_1=7))
    running = UsageHistory.open(path, LAYERS, EXPERTS, "olmoe", {0, 1})
    run(capsys, "reset", "chat", "--yes")
    running.save(counts(l0_1=9))
    assert known(path) == [[0, 1, 2]]


def test_a_frozen_profile_learns_nothing(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    learn("chat", model, counts(l0_1=7))
    assert launch("x:y", {}, profile="chat").options_for(model)[0].learn
    run(capsys, "freeze", "chat")
    assert not launch("x:y", {}, profile="chat").options_for(model)[0].learn
    assert launch("x:y", {}, profile="coding").options_for(model)[0].learn
    assert "frozen" in run(capsys, "list")
    run(capsys, "freeze", "chat", "--off", "--model", model)
    assert launch("x:y", {}, profile="chat").options_for(model)[0].learn
    assert "name one with --model" in run(capsys, "freeze", "coding", code=1)


def test_decay(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    path = learn("chat", model, counts(l0_1=7, l1_0=1))
    assert "5 selections left" in run(capsys, "decay", "chat", "0.5")
    assert known(path) == [[0, 1, 4], [1, 0, 1]]
    assert "above 0 and up to 1" in run(capsys, "decay", "chat", "0", code=1)


def test_import_and_export(capsys: pytest.CaptureFixture[str], model: Path, home: Path) -> None:
    """The multi-token-prediction row, which colibrì writes, is carried along."""
    theirs = home / "theirs"
    theirs.write_text("-1 2 8\n-2 1 3841822045\n0 3 5\n1 7 2\n2 4 9\n# coli-ramdisk-merge " + "a" * 32 + "\n")
    assert "16 selections imported" in run(capsys, "import", "chat", theirs, "--model", model)
    assert "knows 16 selections" in run(capsys, "import", "chat", theirs, "--model", model, code=1)
    run(capsys, "import", "chat", theirs, "--model", model, "--add")
    ours = home / "ours"
    run(capsys, "export", "chat", ours, "--model", model)
    assert ours.read_text() == "-1 2 8\n-2 1 3841822045\n0 3 10\n1 7 4\n2 4 18\n"
    assert "exists already" in run(capsys, "export", "chat", ours, "--model", model, code=1)
    run(capsys, "export", "chat", ours, "--model", model, "--force")
    wrong = home / "wrong"
    wrong.write_text("-1 99 512\n0 3 5\n")
    assert "99 layers x 512 experts" in run(capsys, "import", "coding", wrong, "--model", model, code=1)
    assert "no such file" in run(capsys, "import", "coding", home / "nowhere", "--model", model, code=1)


def test_pairs_are_imported_and_merged(capsys: pytest.CaptureFixture[str], model: Path, home: Path) -> None:
    path, other = learn("chat", model, counts(l0_1=1)), learn("default", model, counts(l0_1=1))
    theirs = home / "theirs"
    theirs.write_text(PAIRS)
    assert "1 experts with their followers imported" in run(capsys, "import", "chat", theirs, "--model", model)
    run(capsys, "import", "chat", theirs, "--model", model)
    assert pairs_path(path).read_text() == "COLIPAIRS 1 1\n0 1 2 3:8\n"
    run(capsys, "merge", "default", "chat", "--model", model)
    assert pairs_path(other).read_text() == "COLIPAIRS 1 1\n0 1 2 3:8\n"
    theirs.write_text("COLIPAIRS 7 1\n0 1 2 3:4\n")
    assert "version 7" in run(capsys, "import", "chat", theirs, "--model", model, code=1)


def test_merge(capsys: pytest.CaptureFixture[str], model: Path, home: Path) -> None:
    path = learn("default", model, counts(l0_1=10))
    learn("chat", model, counts(l0_1=1, l0_2=3))
    run(capsys, "merge", "default", "chat", "--model", model)
    assert known(path) == [[0, 1, 11], [0, 2, 3]]
    baseline, copy = home / "baseline", home / "copy"
    baseline.write_bytes(format_usage(counts(l0_1=10, l1_1=4), LAYERS, "olmoe"))
    copy.write_bytes(format_usage(counts(l0_1=15, l1_1=2, l1_3=6), LAYERS, "olmoe"))
    out = run(capsys, "merge", "default", copy, "--baseline", baseline, "--model", model)
    assert "11 selections added" in out
    assert known(path) == [[0, 1, 16], [0, 2, 3], [1, 3, 6]]
