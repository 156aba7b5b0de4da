"""`colibri-tui ab` and `learn`: what they print, on the real engine and a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from colibri_tui.cli import main
from colibri_tui.profiles import model_key, usage_path
from engine.experts.usage import glance
from tests.engine.lab.small import write_small


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("commands") / "small")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    for name, words in (("code", "def sort list"), ("talk", "how are you")):
        folder = tmp_path / "prompts" / name
        folder.mkdir(parents=True)
        for number in range(2):
            (folder / f"{number}.txt").write_text(f"{words} {number}")
    return tmp_path / "prompts"


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    options = ["--tokens", "6", "--threads", "1", "--context", "128", "--cap", "6"]
    assert main([*map(str, arguments), *options]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *arguments, "--json"))
    return found


def test_ab(capsys: pytest.CaptureFixture[str], model: Path, prompts: Path) -> None:
    found = json_of(capsys, "ab", model, "--prompts", prompts)
    assert found["workloads"]["code"]["held_out"] == ["code/1.txt"]
    assert [profile["name"] for profile in found["profiles"]] == ["code", "talk", "all"]
    assert found["profiles"][0]["cells"][1]["workload"] == "talk"
    assert 0 < found["cold"]["code"]["rate"] < 1
    assert not usage_path("default", model_key(model)).exists(), "a measurement is no experience"
    out = run(capsys, "ab", model, "--prompts", prompts)
    assert "code: neutral (nothing is pinned" in out
    assert "MB read for a token" in out


def test_ab_of_policies(capsys: pytest.CaptureFixture[str], model: Path, prompts: Path) -> None:
    found = json_of(capsys, "ab", model, "--prompts", prompts, "--policy", "all")
    assert {rival["policy"] for rival in found["rivals"]} >= {"auto", "lru", "streak", "min"}
    assert "best: " in run(capsys, "ab", model, "--prompts", prompts, "--policy", "all")
    assert "is none of all, auto" in run(capsys, "ab", model, "--policy", "best", code=2)


def test_ab_of_limits(capsys: pytest.CaptureFixture[str], model: Path, prompts: Path) -> None:
    found = json_of(capsys, "ab", model, "--prompts", prompts, "--topk", "1", "--topp", "0.6")
    assert [(cost["topk"], cost["topp"]) for cost in found["limits"]] == [(1, None), (None, 0.6), (1, 0.6)]
    assert found["limits"][0]["kept"] == 1.0
    out = run(capsys, "ab", model, "--prompts", prompts, "--topk", "1")
    assert "limit (lossy)" in out
    assert "--topk 1" in out


def test_learn(capsys: pytest.CaptureFixture[str], model: Path, prompts: Path) -> None:
    found = json_of(capsys, "learn", model, prompts / "code", prompts / "talk" / "0.txt", "--profile", "coding")
    assert len(found["lessons"]) == 3
    assert found["reads_measured"] == found["reads_replayed"]
    assert glance(usage_path("coding", model_key(model))).total == found["selections"]
    out = run(capsys, "learn", model, prompts / "code", "--as-given", "--profile", "coding")
    assert "0.0 % saved" in out
    assert "went into profile coding" in out
