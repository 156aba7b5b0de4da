"""Where files lie."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from colibri_tui import paths


def test_home_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path))
    assert paths.config_dir() == tmp_path / "config"
    assert paths.settings_path() == tmp_path / "config" / "settings.toml"
    assert paths.themes_dir() == tmp_path / "config" / "themes"
    assert paths.data_dir() == tmp_path / "data"
    assert paths.models_dir() == tmp_path / "data" / "models"
    assert paths.profiles_dir() == tmp_path / "data" / "profiles"
    assert paths.database_path() == tmp_path / "data" / "conversations.db"
    assert paths.state_path() == tmp_path / "data" / "state.json"
    assert paths.cache_dir() == tmp_path / "cache"
    assert paths.kernels_dir() == tmp_path / "cache" / "kernels"
    assert paths.logs_dir() == tmp_path / "cache" / "logs"
    assert list(tmp_path.iterdir()) == []


def test_home_may_be_relative_or_start_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "user"))
    monkeypatch.setenv("COLIBRI_TUI_HOME", "here")
    assert paths.data_dir() == tmp_path / "here" / "data"
    monkeypatch.setenv("COLIBRI_TUI_HOME", "~/there")
    assert paths.data_dir() == tmp_path / "user" / "there" / "data"


@pytest.mark.parametrize("home", [None, ""])
def test_without_home_the_platform_decides(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLIBRI_TUI_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("COLIBRI_TUI_HOME", home)
    assert paths.config_dir() == Path(platformdirs.user_config_dir("colibri-tui", appauthor=False))
    assert paths.data_dir() == Path(platformdirs.user_data_dir("colibri-tui", appauthor=False))
    assert paths.cache_dir() == Path(platformdirs.user_cache_dir("colibri-tui", appauthor=False))
