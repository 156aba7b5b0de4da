"""`models`: ours and the hub's cache, what is unfinished, removing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import engine.convert  # noqa: F401 - before a test moves the folder of compiled kernels
from colibri_tui import paths
from colibri_tui.cli import main
from colibri_tui.inventory import installed, unfinished
from colibri_tui.models import cached_models, resolve_model
from colibri_tui.profiles import model_key, usage_path
from colibri_tui.recommended import MODELS, recommended
from engine.errors import EngineError
from engine.expectations import Machine
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub

REPO = "someone/Little-MoE"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("COLIBRI_CONFIG_PATH", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr("colibri_tui.machine_speed.machine_speed", lambda *_, **__: Machine(20e9, 2e9, True))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return write_hub(paths.models_dir() / "mine", CASES["mixtral"])


def cache(tmp_path: Path, commit: str = "a" * 40) -> Path:
    """A model in the hub's cache, as its library lays it out."""
    repo = tmp_path / "hub" / "models--someone--Little-MoE"
    blobs, snapshot = repo / "blobs", repo / "snapshots" / commit
    source = write_hub(tmp_path / f"source-{commit[:4]}", CASES["olmoe"])
    blobs.mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir(exist_ok=True)
    (repo / "refs" / "main").write_text(commit)
    for number, file in enumerate(sorted(source.iterdir())):
        blob = blobs / f"{commit[:4]}{number}"
        file.rename(blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


def test_ours_and_those_of_the_hubs_cache(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = cache(tmp_path)
    assert main(["models", "--json"]) == 0
    said = {one["name"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {name: (one["family"], one["cached"], one["path"]) for name, one in said.items()} == {
        "mine": ("mixtral", False, str(own)), REPO: ("olmoe", True, str(snapshot)),
    }  # fmt: skip
    assert said[REPO]["nbytes"] > 10_000
    assert resolve_model(REPO) == snapshot
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    assert "in the hub's cache" in out
    assert "never" in out


def test_of_several_snapshots_the_newest(tmp_path: Path) -> None:
    old, new = cache(tmp_path, "a" * 40), cache(tmp_path, "b" * 40)
    os.utime(old, (1, 1))
    assert cached_models() == {REPO: new}


def test_a_snapshot_without_weights_is_no_model(tmp_path: Path) -> None:
    snapshot = cache(tmp_path)
    for file in snapshot.glob("*.safetensors"):
        file.unlink()
    assert cached_models() == {}
    with pytest.raises(EngineError, match="no model folder or name"):
        resolve_model(REPO)


def test_a_forecast_for_each(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own.parent / "broken").mkdir()
    (own.parent / "broken" / "config.json").write_text("{")
    assert main(["models", "--forecast", "--json"]) == 0
    said = {one["name"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert said["mine"]["share"] == 1.0
    assert said["mine"]["tok_s"] > 0
    assert "not valid JSON" in said["broken"]["problem"]
    assert main(["models", "--forecast"]) == 0
    assert "tok/s" in capsys.readouterr().out


def test_last_use_is_that_of_any_profile(own: Path) -> None:
    history = usage_path("coding", model_key(own))
    history.parent.mkdir(parents=True)
    history.write_text("")
    os.utime(history, (1e9, 1e9))
    assert installed()[0].last_used == 1e9


def test_what_is_unfinished(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = paths.models_dir() / ".big.pulling"
    work.mkdir()
    (work / "model.safetensors.part").write_bytes(b"x" * 1000)
    assert [(one.name, one.nbytes) for one in unfinished()] == [("big", 1000)]
    assert main(["models"]) == 0
    assert "unfinished: big (1.00 kB)" in capsys.readouterr().out
    assert main(["models", "remove", "big", "--yes"]) == 0
    assert not work.exists()


def test_removing_keeps_what_was_learned(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = usage_path("coding", model_key(own))
    history.parent.mkdir(parents=True)
    history.write_text("0 1 5\n")
    assert main(["models", "remove", "mine", "--yes"]) == 0
    assert "mine: removed, " in capsys.readouterr().out
    assert not own.exists()
    assert history.exists()
    assert main(["models", "remove", "mine", "--yes"]) == 1
    assert "no model 'mine'" in capsys.readouterr().err


def test_a_link_is_removed_not_what_it_leads_to(own: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    own.rename(target)
    own.symlink_to(target)
    assert main(["models", "remove", "mine", "--yes"]) == 0
    assert (target / "config.json").exists()
    assert not own.exists()


@pytest.mark.parametrize("name", ["..", "../..", "/etc", ""])
def test_nothing_else_can_be_removed(name: str, own: Path) -> None:
    assert main(["models", "remove", name, "--yes"]) in (1, 2)
    assert own.exists()


def test_removing_from_the_hubs_cache(tmp_path: Path) -> None:
    snapshot = cache(tmp_path)
    assert main(["models", "remove", REPO, "--yes"]) == 0
    assert not snapshot.exists()
    assert cached_models() == {}


def test_recommendations_fit_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--recommended", "--ram", "8", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == sorted(said, key=lambda one: -one["memory"])
    assert {one["memory"] for one in said} == {4, 8}
    assert said[0]["command"].startswith("colibri-tui pull ")
    assert recommended(1) == []
    assert list(MODELS) == sorted(MODELS, key=lambda one: one.memory)
    assert main(["models", "--recommended", "--ram", "8"]) == 0
    assert "good from 8 GB of memory" in capsys.readouterr().out
