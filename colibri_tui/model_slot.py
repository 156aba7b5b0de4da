"""The model that is loaded or being loaded: which folder, with which options, and what it learned in which profile."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from colibri_tui.engine_link import EngineLink
from colibri_tui.launch import Launch
from colibri_tui.profiles import model_key
from colibri_tui.telemetry import Telemetry
from engine.events import Ready
from engine.options import EngineOptions

SMALLER: Final = 0.75
"""What a smaller memory budget keeps of the one before."""


class ModelSlot:
    """Starts the engine on a model, with the options that flags, environment and settings give it.

    launch: where the options come from; may be replaced. ready, telemetry: None until the engine has loaded the model.
    options: those of the last start. changes: options that were changed since the program began, for this model.
    """

    def __init__(self, engine: EngineLink, launch: Launch) -> None:
        self._engine = engine
        self.launch = launch
        self.profile = launch.profile
        self.options = EngineOptions()
        self.folder: Path | None = None
        self.key = ""
        self.ready: Ready | None = None
        self.telemetry: Telemetry | None = None
        self.changes: dict[str, Any] = {}
        self._budget: float | None = None  # GB, of the last plan that was made

    @property
    def name(self) -> str:
        """The model's name; '' without a model."""
        if self.ready is not None:
            return self.ready.model
        return self.folder.name if self.folder is not None else ""

    def load(self, folder: Path, profile: str) -> None:
        """Start the engine on a model; nothing changes if that is refused.

        Raises EngineError for a folder that holds no model, a name that is no profile's, an option out of range.
        """
        key = model_key(folder)
        options, _ = self.launch.options_for(folder, profile)
        if folder != self.folder and self.folder is not None:
            self.changes, self._budget = {}, None
        options = replace(options, **self.changes)
        self.folder, self.key, self.profile, self.options = folder, key, profile, options
        self.ready = self.telemetry = None
        self._engine.start(folder, options)

    @property
    def pending(self) -> bool:
        """Whether the next load takes other options than the last one. Raises EngineError like `load`."""
        assert self.folder is not None
        options, _ = self.launch.options_for(self.folder, self.profile)
        return replace(options, **self.changes) != self.options

    def reload(self) -> None:
        """Start the engine again on the same model. Raises EngineError if the model has gone."""
        assert self.folder is not None
        self.load(self.folder, self.profile)

    def change(self, name: str, value: Any) -> dict[str, Any]:
        """Use another value of an option from the next load on; return the changes there were before."""
        before, self.changes = self.changes, {**self.changes, name: value}
        return before

    def use_profile(self, profile: str) -> tuple[str, bool] | None:
        """Use another profile; return the history that an engine that is loaded has to go on with, and whether it
        learns into it. None when the engine has to be loaded, or a person has named its history.

        Raises EngineError for a name that is no profile's.
        """
        if self.folder is None:
            self.profile = profile
            return None
        options, _ = self.launch.options_for(self.folder, profile)
        self.profile = profile
        if options.usage is not None or options.history is None:
            return None
        self.options = replace(self.options, history=options.history, learn=options.learn)
        return options.history, options.learn

    def loaded(self, ready: Ready) -> None:
        """The engine is ready."""
        self.ready = ready
        self._budget = ready.plan.budget / 1e9
        if self._engine.board is not None:
            self.telemetry = Telemetry(self._engine.board, ready.moe_layers)

    def shrink(self) -> float:
        """Ask for a smaller memory budget from the next load on; return it in GB.

        Smaller than the last plan's; than the one asked for, if no plan was made; else than half of the machine's.
        """
        before = self._budget or self.options.ram
        if before is None:
            before = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2e9
        self.changes["ram"] = self._budget = before * SMALLER
        return self._budget
