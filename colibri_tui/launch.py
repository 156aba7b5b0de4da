"""What the program was started with: from flags, environment and settings to the options a model is opened with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.options import EngineOptions
from engine.worker import ENGINE

from .models import demo_folder, is_model
from .profiles import BUILT_IN, check_name, model_key, usage_path
from .settings import Origin, Settings, read_settings, resolve_options

Progress = Callable[[str, int, int], None]
"""Told of `done` of `total` of a stage."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A start of the program.

    settings: the settings file. profile: whose learned history is used. model: what to open; None = ask.
    flags: engine options from the command line, see `settings.resolve_options`. factory: import string of the
    engine's factory, see `engine.worker`.
    """

    settings: Settings
    profile: str = BUILT_IN[0]
    model: Path | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    factory: str = ENGINE

    def options_for(self, folder: Path, profile: str | None = None) -> tuple[EngineOptions, dict[str, Origin]]:
        """Return the options for a model and where each comes from; `profile` in place of the one it began with.

        Raises EngineError for an option out of range, a name that is no profile's, a folder that is no model.
        """
        options, origins = resolve_options(self.flags, os.environ, self.settings)
        history = usage_path(profile or self.profile, model_key(folder))
        return replace(options, history=str(history)), origins


def launch(factory: str, flags: Mapping[str, Any], *, profile: str | None = None, model: Path | None = None) -> Launch:
    """Read the settings and return the launch. Raises EngineError for a mistake in them or in the profile's name."""
    settings = read_settings(os.environ)
    return Launch(settings, check_name(profile or settings.profile or BUILT_IN[0]), model, flags, factory)


def ensure_built(folder: Path, progress: Progress) -> None:
    """Build the demo model if that is what the folder means and it is not there yet. Raises EngineError."""
    if folder == demo_folder() and not is_model(folder):
        from .demo import build_demo

        build_demo(folder, progress)
