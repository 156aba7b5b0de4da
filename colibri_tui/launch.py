"""What the program was started with: from flags, environment and settings to the options a model is opened with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.options import EngineOptions
from engine.worker import ENGINE

from . import paths
from .demo import demo_defaults
from .keymap import Keymap, read_keymap
from .models import demo_folder
from .profiles import BUILT_IN, check_name, is_frozen, list_profiles, model_key, usage_path
from .settings import Origin, Settings, read_settings, read_state, resolve_options


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

    @property
    def keymap(self) -> Keymap:
        """Which key does what."""
        return read_keymap(self.settings.keys)

    def options(self) -> tuple[EngineOptions, dict[str, Origin]]:
        """Return the options for any model, and where each comes from. Raises EngineError for one out of range."""
        return resolve_options(self.flags, os.environ, self.settings)

    def options_for(self, folder: Path, profile: str | None = None) -> tuple[EngineOptions, dict[str, Origin]]:
        """Return the options for a model and where each comes from; `profile` in place of the one it began with.

        Raises EngineError for an option out of range, a name that is no profile's, a folder that is no model.
        """
        options, origins = self.options()
        if folder == demo_folder():
            options = _completed(options, origins, demo_defaults())
        name, key = profile or self.profile, model_key(folder)
        learn = options.learn and not is_frozen(name, key)
        return replace(options, history=str(usage_path(name, key)), learn=learn), origins


def launch(factory: str, flags: Mapping[str, Any], *, profile: str | None = None, model: Path | None = None) -> Launch:
    """Read the settings and return the launch. Raises EngineError for a mistake in them or in the profile's name.

    The profile is the one named, else that of the settings, else the one used last.
    """
    settings = read_settings(os.environ)
    return Launch(settings, check_name(profile or current_profile(settings)), model, flags, factory)


def current_profile(settings: Settings) -> str:
    """Return the profile that is used when none is named."""
    if settings.profile:
        return settings.profile
    last = read_state(paths.state_path()).profile
    return last if last is not None and last in list_profiles() else BUILT_IN[0]


def _completed(options: EngineOptions, origins: Mapping[str, Origin], defaults: EngineOptions) -> EngineOptions:
    """Return the options with other defaults for what nobody has chosen."""
    unset = {name: getattr(defaults, name) for name, origin in origins.items() if origin == "default"}
    return replace(options, **unset)
