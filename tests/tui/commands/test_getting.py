"""`convert` and `pull` as a person calls them: what they print, and where the model is found afterwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import engine.convert  # noqa: F401 - before a test moves the folder of compiled kernels
from colibri_tui import paths
from colibri_tui.cli import main
from colibri_tui.pace import Pace
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub
from tests.tui.hub.hub_server import serving


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLIBRI_CONFIG_PATH", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_hub(tmp_path / "little", CASES["olmoe"])


def call(*arguments: object, code: int = 0) -> None:
    assert main([str(argument) for argument in arguments]) == code


def test_a_converted_model_is_known_by_name(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", source)
    out, _ = capsys.readouterr()
    assert out.startswith(f"{paths.models_dir() / 'little-int4'}: ")
    assert "verified; open it with 'colibri-tui little-int4'\n" in out
    assert "  experts' gate and up: 3 of 3 int4 in groups of 32, error 5." in out
    assert "  dense matrices: 14 of 14 int8, error 0.4%, int4/32 would be 5." in out
    call("run", "little-int4", "--ids", "1,2,3", "--max-tokens", "2", "--json", "--cap", "1")
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events[-1] == "turn"


def test_the_report_of_a_check(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", source, tmp_path / "there", "--bits", "int8", "--check")
    out, _ = capsys.readouterr()
    assert "1,024 positions" in out
    assert "divergence (KL)" in out
    assert "same first choice" in out
    rows = [line.split() for line in out.splitlines()]
    layers = [row for row in rows if len(row) == 7 and row[2].endswith("%")]
    assert [row[0] for row in layers] == ["0", "1", "2"]
    assert all(row[1::2] == ["int8"] * 3 for row in layers)


def test_groups_are_for_int4(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", source, tmp_path / "there", "--group", "64", "--json")
    record = json.loads(capsys.readouterr().out.splitlines()[-1])["record"]
    assert record["groups"] == [64]
    assert main(["convert", str(source), str(tmp_path / "other"), "--bits", "int8", "--group", "64"]) == 2
    assert "--group is for int4" in capsys.readouterr().err


def test_json_for_programs(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", source, tmp_path / "there", "--json")
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said[-1]["event"] == "done"
    assert said[-1]["path"] == str(tmp_path / "there")
    assert {one["event"] for one in said[:-1]} == {"progress"}
    assert said[-1]["record"]["experts"] == "int4"


def test_a_target_that_is_there(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", source, tmp_path / "there")
    assert "rounded a second time" not in capsys.readouterr().err
    call("convert", tmp_path / "there", tmp_path / "again")
    assert "rounded a second time; take the original" in capsys.readouterr().err
    call("convert", source, tmp_path / "there", code=1)
    assert "there is something already; remove it or choose another name" in capsys.readouterr().err


def test_pulling_by_name(source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as hub:
        hub.add("someone/Little-MoE", source)
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        call("pull", f"{hub.address}/someone/Little-MoE@main")
        assert capsys.readouterr().out.endswith("verified; open it with 'colibri-tui Little-MoE'\n")
        call("pull", "someone/Little-MoE")
        assert "already here" in capsys.readouterr().out
        call("pull", "someone/Little-MoE", "--convert", "int8", "--name", "mine")
        assert "open it with 'colibri-tui mine'" in capsys.readouterr().out
        call("pull", "someone/Little-MoE", "--name", "../out", code=1)
        assert "'../out' is no name for a model" in capsys.readouterr().err
    call("run", "mine", "--ids", "1,2", "--max-tokens", "1", "--cap", "1", "-q")


def test_pace_tells_speed_and_what_is_left() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    assert pace.told("downloading", 0, 60_000_000_000) == "downloading 0 B of 60.0 GB (0 %)"
    now[0] = 10.0
    assert pace.told("downloading", 2_000_000_000, 60_000_000_000).endswith("(3 %), 200 MB/s, 4 min 50 s left")
    now[0] = 100.0
    pace.told("downloading", 3_000_000_000, 60_000_000_000)
    now[0] = 110.0
    assert "100 MB/s" in pace.told("downloading", 4_000_000_000, 60_000_000_000)
    now[0] = 120.0
    assert pace.told("verifying", 5, 60) == "verifying 5 B of 60 B (8 %)"
    assert pace.told("asking the hub", 0, 0) == "asking the hub"


def test_learning_from_an_empty_folder(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nothing").mkdir()
    call("learn", source, tmp_path / "nothing", code=1)
    assert "no prompts in it" in capsys.readouterr().err
