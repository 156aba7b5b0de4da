"""From flags, environment and settings to the options of one model."""

from __future__ import annotations

from pathlib import Path

import pytest

from colibri_tui import paths
from colibri_tui.demo import demo_defaults
from colibri_tui.launch import launch
from colibri_tui.models import demo_folder
from engine.errors import EngineError
from tests.fake_engine import write_model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    for name in ("RAM_GB", "COLI_USAGE", "COLIBRI_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    return write_model(tmp_path / "model")


def write_settings(text: str) -> None:
    paths.settings_path().parent.mkdir(parents=True, exist_ok=True)
    paths.settings_path().write_text(text)


def test_flags_win_over_environment_and_settings(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings("[engine]\nram = 1\ncap = 5\n")
    monkeypatch.setenv("RAM_GB", "2")
    options, origins = launch("f", {"ram": "3"}).options_for(model)
    assert (options.ram, origins["ram"]) == (3.0, "flag")
    assert (options.cap, origins["cap"]) == (5, "settings")
    options, origins = launch("f", {"ram": "auto"}).options_for(model)
    assert (options.ram, origins["ram"]) == (None, "flag")


def test_the_history_belongs_to_the_profile_and_the_model(model: Path, tmp_path: Path) -> None:
    start = launch("f", {}, profile="coding")
    history = Path(str(start.options_for(model)[0].history))
    assert history.name == ".coli_usage"
    assert history.parent.parent == paths.profiles_dir() / "coding"
    other = Path(str(start.options_for(model, "chat")[0].history))
    assert other.parent.parent == paths.profiles_dir() / "chat"
    assert other.parent.name == history.parent.name


def test_the_profile_of_the_settings(model: Path) -> None:
    write_settings('[ui]\nprofile = "chat"\n')
    assert launch("f", {}).profile == "chat"
    assert launch("f", {}, profile="coding").profile == "coding"


def test_a_bad_profile_is_refused_at_the_start(model: Path) -> None:
    with pytest.raises(EngineError, match="profile name"):
        launch("f", {}, profile="../up")


def test_the_demo_has_defaults_of_its_own(model: Path) -> None:
    demo = write_model(demo_folder())
    options, origins = launch("f", {"context": "100"}).options_for(demo)
    assert (options.cap, origins["cap"]) == (demo_defaults().cap, "default")
    assert (options.context, origins["context"]) == (100, "flag")
    assert launch("f", {"cap": "auto"}).options_for(demo)[0].cap is None
    assert launch("f", {}).options_for(model)[0].cap is None
