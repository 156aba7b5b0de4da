"""`plan`: from headers alone, of a model here or on a hub."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import engine.convert  # noqa: F401 - before a test moves the folder of compiled kernels
from colibri_tui import paths
from colibri_tui.cli import main
from colibri_tui.profiles import model_key, usage_path
from engine import Engine, EngineOptions
from engine.expectations import Machine
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub
from tests.tui.hub.hub_server import serving


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLIBRI_CONFIG_PATH", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr("colibri_tui.machine_speed.machine_speed", lambda *_: Machine(20e9, 2e9, True))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_hub(tmp_path / "little", CASES["olmoe"])


def planned(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["plan", *map(str, arguments), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_it_says_what_loading_then_finds(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = planned(capsys, model, "--cap", "3")
    form = said["forms"][0]
    with Engine.open(model, EngineOptions(cap=3)) as engine:
        info = engine.info
    assert form["dense_bytes"] == info.dense_bytes
    assert form["expert_bytes"] == info.expert_bytes
    assert form["plan"]["cap"] == info.plan.cap == 3
    assert form["plan"]["cache"] == info.plan.cache
    assert form["plan"]["kv"] == info.plan.kv
    assert (said["family"], said["experts"], said["top_k"]) == (info.family, info.experts, info.top_k)
    assert form["kv_bytes_per_1000_tokens"] * info.context == pytest.approx(form["plan"]["kv"] * 1000, rel=0.01)


def test_converted_forms_are_those_that_convert_makes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forms = {form["form"]: form for form in planned(capsys, model)["forms"]}
    assert set(forms) == {"as it is", "int4", "int8"}
    for bits in ("int4", "int8"):
        assert main(["convert", str(model), str(model.with_name(bits)), "--bits", bits]) == 0
        capsys.readouterr()
        made = planned(capsys, model.with_name(bits))["forms"]
        assert [form["form"] for form in made] == ["as it is"]
        assert made[0]["expert_bytes"] == forms[bits]["expert_bytes"]
        assert made[0]["kv_bytes_per_1000_tokens"] == forms[bits]["kv_bytes_per_1000_tokens"]
        assert made[0]["dense_bytes"] == pytest.approx(forms[bits]["dense_bytes"], rel=0.1)


def test_a_model_on_a_hub(model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    here = planned(capsys, model)
    with serving() as hub:
        hub.add("someone/Little-MoE", model)
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        there = planned(capsys, "someone/Little-MoE")
        assert there["model"] == "someone/Little-MoE@01234567"
        assert [form["dense_bytes"] for form in there["forms"]] == [form["dense_bytes"] for form in here["forms"]]
        assert main(["plan", "someone/Little-MoE"]) == 0
        assert "get it with 'colibri-tui pull someone/Little-MoE --convert int4'" in capsys.readouterr().out
    assert not paths.models_dir().exists()


def test_a_history_is_used(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = usage_path("coding", model_key(model))
    history.parent.mkdir(parents=True)
    history.write_text("".join(f"{layer} {expert} 100\n" for layer in range(3) for expert in range(3)))
    said = planned(capsys, model, "--cap", "3", "--profile", "coding")
    assert said["forms"][0]["hits"] == {"value": 1.0, "source": "from your history of 900 choices"}
    assert planned(capsys, model, "--cap", "3")["forms"][0]["hits"]["source"] == "published for OLMoE"


def test_a_budget_that_is_too_small(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--ram", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "as it is: " in out


def test_what_is_neither_a_model_nor_a_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "nothing"]) == 1
    assert "no model folder or name 'nothing'" in capsys.readouterr().err
