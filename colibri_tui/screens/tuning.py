"""What a person changes about the engine and the program: profiles, settings, and whether pins pay."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from textual import work
from textual.message import Message

from colibri_tui import paths, practice
from colibri_tui.launch import Launch
from colibri_tui.render.looks import Looks
from colibri_tui.screens.engine_view import frame_seconds
from colibri_tui.screens.habits import ChatHabits
from colibri_tui.screens.keys import KeysScreen
from colibri_tui.screens.practice import PracticeScreen
from colibri_tui.screens.profiles import ProfilesScreen
from colibri_tui.screens.settings import SettingsScreen
from colibri_tui.settings import Origin, Settings, State, read_settings, write_state
from colibri_tui.settings_file import change_setting
from colibri_tui.turns import CHOOSE, RESTART
from colibri_tui.view import Actions, Severity
from engine.errors import EngineError
from engine.events import Turn
from engine.options import EngineOptions


class SettingsChanged(Message):
    """A person changed the settings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings


class ChatTuning(ChatHabits):
    """The part of the chat screen that is about the engine's options."""

    def __init__(self, launch: Launch, looks: Looks, problems: Sequence[str] = ()) -> None:
        """launch: what the program was started with, and the settings as they are now."""
        super().__init__(looks, problems)
        self._launch = launch
        self._frame_seconds = frame_seconds(calm=bool(launch.settings.reduce_motion))
        self._practice: PracticeScreen | None = None
        self._offered: set[tuple[str, str]] = set()  # profiles and models that practice was offered to
        self._offer: tuple[str, Actions] | None = None  # what is told once no answer is under way

    def remember(self) -> None:
        """Store what the next start of the program should find."""
        if self.gone:
            return
        folder = self.conductor.model.folder
        self._store_state(
            State(str(folder) if folder else None, self.conductor.model.profile, layout=self.layout_state)
        )

    @work(thread=True, exclusive=True, group="state")
    def _store_state(self, state: State) -> None:
        """Write it, on a thread that asks no widget: by then they may be gone."""
        try:
            write_state(paths.state_path(), state)
        except EngineError as error:
            self.report(str(error))

    def action_profile(self, name: str = "") -> None:
        """Use another profile; without a name, let one be chosen."""

        def chosen(name: str | None) -> None:
            if name and name != self.conductor.model.profile:
                self.conductor.use_profile(name)
                self.remember()

        if name:
            chosen(name)
        else:
            self.app.push_screen(ProfilesScreen(self.conductor.model.profile, self.conductor.model.key), chosen)

    def action_settings(self) -> None:
        """Show every option, and let it be changed."""
        model = self.conductor.model

        def resolve(settings: Settings) -> tuple[EngineOptions, Mapping[str, Origin]]:
            launch = replace(self._launch, settings=settings)
            options, origins = launch.options_for(model.folder, model.profile) if model.folder else launch.options()
            changes = self._standing_changes(settings)
            return replace(options, **changes), {**origins, **dict.fromkeys(changes, "command")}

        def closed(settings: Settings | None) -> None:
            if settings is not None:
                self.take_settings(settings)

        running = model.options if model.folder else None
        self.app.push_screen(SettingsScreen(self._launch.settings, resolve, running, model.ready), closed)

    def action_keys(self) -> None:
        """Show every key, and let it be changed."""

        def closed(settings: Settings | None) -> None:
            if settings is not None:
                self.take_settings(settings)

        self.app.push_screen(KeysScreen(self._launch.settings), closed)

    def action_practice(self) -> None:
        """Teach the profile, and measure whether pins help."""
        model = self.conductor.model
        if model.folder is None:
            self.tell("There is no model yet.", "warning", (CHOOSE,))
            return
        screen = PracticeScreen(self.conductor, self._looks, self._frame_seconds)

        def left(turn_on: bool | None) -> None:
            self._practice = None
            if turn_on:
                self._turn_pins_on()

        self._practice = screen
        self.app.push_screen(screen, left)

    def _turn_pins_on(self) -> None:
        path = self._launch.settings.path
        try:
            change_setting(path, "engine", "pin", "auto")
            settings = read_settings(os.environ, path)
        except EngineError as error:
            self.tell(f"{error}.", "error")
            return
        model = self.conductor.model
        model.changes.pop("pin", None)
        self._launch = model.launch = replace(self._launch, settings=settings)
        if model.pending:
            self.conductor.restart()
        self.tell("Pins are on: the experts this profile uses most stay in memory. /settings turns them off again.")

    def tell(self, text: str, severity: Severity = "information", actions: Actions = ()) -> None:
        """Put a notice into the transcript; what is no trouble is not told while practice starts engines."""
        if self._practice is None or severity != "information":
            super().tell(text, severity, actions)

    def offer_practice(self) -> None:
        """Tell a profile that knows nothing of the model what could be done, or that it was begun; once a start."""
        model = self.conductor.model
        about = (model.profile, model.key)
        if about in self._offered or self._practice is not None or model.telemetry is None:
            return
        self._offered.add(about)
        begun = practice.load(practice.path_for(*about))
        if begun is not None and begun.stage != "done":
            self._offer = "Practice was left half way; it goes on where it was.", (("practice", "go on"),)
        elif begun is None and (sample := model.telemetry.sample(live=False)) is not None and not sample.heat.any():
            self._offer = (
                "This profile knows nothing of this model yet. Practice runs a few typical prompts, and then measures "
                "whether it pays to keep its favourite experts in memory.",
                (("practice", "practice"),),
            )
        self._tell_offer()

    def turn_ended(self, turn: Turn | None) -> None:
        """Tell what would have stood between the prompt and its answer."""
        super().turn_ended(turn)
        self._tell_offer()

    def _tell_offer(self) -> None:
        if self._offer is not None and not self.conductor.answering:
            (text, actions), self._offer = self._offer, None
            self.tell(text, actions=actions)

    def _standing_changes(self, settings: Settings) -> dict[str, Any]:
        """Return what commands have changed, but for what the settings say otherwise now."""
        before, now = self._launch.settings.engine, settings.engine
        return {n: v for n, v in self.conductor.model.changes.items() if before.get(n) == now.get(n)}

    def take_settings(self, settings: Settings) -> None:
        """Go by other settings from now on; the engine does at its next start."""
        if settings == self._launch.settings:
            return
        model = self.conductor.model
        model.changes = self._standing_changes(settings)
        self._launch = model.launch = replace(self._launch, settings=settings)
        self._frame_seconds = frame_seconds(calm=bool(settings.reduce_motion))
        self.app.post_message(SettingsChanged(settings))
        if model.folder is not None and model.pending:
            self.tell("The engine takes the changes at its next start.", actions=(RESTART,))
