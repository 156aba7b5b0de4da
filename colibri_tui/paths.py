"""Where the program keeps its things, by the custom of each platform.

`COLIBRI_TUI_HOME=DIR` puts everything under DIR, in `config`, `data` and `cache`: for a portable copy, a
second set-up, or a test. Nothing here creates a folder; whoever writes does.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

HOME_VARIABLE = "COLIBRI_TUI_HOME"
_NAME = "colibri-tui"


def config_dir() -> Path:
    """What a person edits: settings and themes."""
    return _under_home("config") or platformdirs.user_config_path(_NAME, appauthor=False)


def data_dir() -> Path:
    """What must not be lost: models, learned histories, conversations."""
    return _under_home("data") or platformdirs.user_data_path(_NAME, appauthor=False)


def cache_dir() -> Path:
    """What can be made again: compiled code, logs."""
    return _under_home("cache") or platformdirs.user_cache_path(_NAME, appauthor=False)


def settings_path() -> Path:
    """The settings file."""
    return config_dir() / "settings.toml"


def themes_dir() -> Path:
    """A person's own themes."""
    return config_dir() / "themes"


def models_dir() -> Path:
    """Models that were pulled or converted."""
    return data_dir() / "models"


def profiles_dir() -> Path:
    """One folder a profile, with the learned history of every model used in it."""
    return data_dir() / "profiles"


def database_path() -> Path:
    """The conversations."""
    return data_dir() / "conversations.db"


def conversation_states_dir() -> Path:
    """Saved memories of conversations, one folder a model key."""
    return data_dir() / "state"


def state_path() -> Path:
    """What the program remembers from run to run: the last model, the layout."""
    return data_dir() / "state.json"


def kept_dir() -> Path:
    """What the engine remembers of conversations: one folder a model, one file a conversation."""
    return data_dir() / "state"


def kernels_dir() -> Path:
    """Compiled kernels."""
    return cache_dir() / "kernels"


def logs_dir() -> Path:
    """Logs."""
    return cache_dir() / "logs"


def _under_home(part: str) -> Path | None:
    home = os.environ.get(HOME_VARIABLE)
    return Path(home).expanduser().absolute() / part if home else None
