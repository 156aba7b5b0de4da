"""`config` and completion: one precedence, and every value says where it comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from colibri_tui import paths
from colibri_tui.cli import SECTIONS, cli, main
from colibri_tui.settings import State, write_state
from engine.options import KNOBS
from tests.fake_engine import write_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for knob in KNOBS:
        if knob.env:
            monkeypatch.delenv(knob.env, raising=False)
    monkeypatch.delenv("COLIBRI_CONFIG_PATH", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def values(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[Any, str]]:
    assert main(["config", "--json"]) == 0
    said = map(json.loads, capsys.readouterr().out.splitlines())
    return {one["name"]: (one["value"], one["origin"]) for one in said}


def test_every_value_says_where_it_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.settings_path().parent.mkdir(parents=True)
    paths.settings_path().write_text('[engine]\nram = 8\ncontext = 4096\n[ui]\ntheme = "ember"\n')
    monkeypatch.setenv("CTX", "2048")
    found = values(capsys)
    assert found["ram"] == (8.0, "settings file")
    assert found["context"] == (2048, "environment variable CTX")
    assert found["cap"] == (None, "default")
    assert found["theme"] == ("ember", "settings file")
    assert found["profile"] == ("default", "default")
    assert {knob.name for knob in KNOBS} < set(found)
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    assert "environment variable CTX" in out
    assert str(paths.settings_path()) in out


def test_setting_and_taking_back(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["config", "set", "ram", "6.5"]) == 0
    assert main(["config", "set", "theme", "okabe"]) == 0
    capsys.readouterr()
    assert main(["config", "get", "ram"]) == 0
    assert capsys.readouterr().out == "6.5\n"
    monkeypatch.setenv("RAM_GB", "4")
    assert main(["config", "set", "ram", "7"]) == 0
    assert "but environment variable RAM_GB wins over it, with 4" in capsys.readouterr().err
    monkeypatch.delenv("RAM_GB")
    assert main(["config", "unset", "ram"]) == 0
    assert main(["config", "set", "pin", "auto"]) == 0
    capsys.readouterr()
    assert values(capsys)["ram"] == (None, "default")
    assert 'theme = "okabe"' in paths.settings_path().read_text()


def test_words_for_values(capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (
        ("pin_gb", "all"),
        ("ram", "auto"),
        ("ascii", "yes"),
        ("profile", "coding"),
        ("theme", "okabe"),
    ):
        assert main(["config", "set", name, value]) == 0
    capsys.readouterr()
    found = values(capsys)
    assert (found["ascii"][0], found["profile"][0]) == (True, "coding")
    assert main(["config", "get", "pin-gb"]) == 0
    assert capsys.readouterr().out == "all\n"
    for name in ("ascii", "profile", "theme"):
        assert main(["config", "set", name, "auto"]) == 0
    assert paths.settings_path().read_text() == '[engine]\npin_gb = "all"\nram = "auto"\n\n[ui]\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "theme", "nosuch"), "there is no theme 'nosuch'; there are "),
        (("set", "profile", "a/b"), "is not allowed"),
        (("set", "ascii", "perhaps"), "ascii: 'perhaps' is not true or false"),
        (("set", "ram", "much"), "'much' is not a number for --ram"),
        (("set", "raam", "3"), "there is no setting 'raam'; did you mean 'ram'?"),
        (("get", "--", "-1"), "there is no setting '-1'"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *arguments]) == 1
    assert said in capsys.readouterr().err
    assert not paths.settings_path().exists()


def test_another_settings_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[engine]\nram = 3\n")
    monkeypatch.setenv("COLIBRI_CONFIG_PATH", str(other))
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{other}\n"
    assert values(capsys)["ram"] == (3.0, "settings file")
    assert main(["config", "set", "ram", "2"]) == 0
    assert "ram = 2" in other.read_text()


def test_the_profile_that_the_screen_remembers(capsys: pytest.CaptureFixture[str]) -> None:
    write_state(paths.state_path(), State(profile="coding"))
    assert values(capsys)["profile"] == ("coding", "remembered from last time")
    assert main(["config", "set", "profile", "chat"]) == 0
    capsys.readouterr()
    assert values(capsys)["profile"] == ("chat", "settings file")


def completed(words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    count = len(words.split(" ")) - 1
    env = {**os.environ, "_COLIBRI_TUI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    code = "import sys; from colibri_tui.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_completion() -> None:
    write_model(paths.models_dir() / "mistral-moe")
    assert completed("colibri-tui mi") == ["mistral-moe"]
    assert completed("colibri-tui run demo --conte") == ["--context"]
    assert {"run", "pull", "plan", "doctor", "demo", "mistral-moe"} <= set(completed("colibri-tui "))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_makes_a_shell_complete(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_COLIBRI_TUI_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_help_lists_every_command_with_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(
        name for name, command in cli.commands.items() if not command.hidden
    )
    assert "..." not in out.partition("Options:")[0].replace("[ARGS]...", "")
