"""The Textual application: colours, the command palette, and the one screen everything happens on."""

from __future__ import annotations

import locale
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from colibri_tui import paths
from colibri_tui.actions import COMMANDS
from colibri_tui.launch import Launch
from colibri_tui.profiles import list_profiles
from colibri_tui.render.glyphs import ASCII, BLOCKS, Glyphs
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import depth_of
from colibri_tui.screens.chat import ChatScreen
from colibri_tui.screens.chat_view import STYLE_SHEET
from colibri_tui.themes import DEFAULT_THEME, PLAIN_THEME, load_themes
from engine.errors import EngineError


class ColibriApp(App[int]):
    """`colibri-tui` on a terminal."""

    TITLE = "colibri"
    # The style sheet of a default screen is not loaded by itself.
    CSS_PATH: ClassVar[list[str | PurePath]] = [Path(__file__).with_suffix(".tcss"), STYLE_SHEET]
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+p", "command_palette", "Commands", show=True, priority=True)]
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, launch: Launch) -> None:
        # Without colour, colours must be the terminal's own: then Textual leaves them out altogether.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._launch = launch
        self._themes, self._problems = load_themes(paths.themes_dir())
        for theme in self._themes.values():
            self.register_theme(theme.theme)
        self.theme = self._first_theme()

    def _first_theme(self) -> str:
        """Return the theme of the settings, or one that suits the terminal."""
        wanted = self._launch.settings.theme
        if wanted is not None:
            if wanted in self.available_themes:
                return wanted
            names = ", ".join(sorted(self._themes))
            self._problems.append(f"{self._launch.settings.path}: there is no theme {wanted!r}; there are {names}")
        few = self.no_color or self.console.color_system == "standard"
        return PLAIN_THEME if few else DEFAULT_THEME

    @property
    def looks(self) -> Looks:
        """How things are drawn with the theme and the terminal there are."""
        theme = self._themes.get(self.theme, self._themes[DEFAULT_THEME])
        depth = depth_of(self.console.color_system, ansi_theme=self.current_theme.ansi, no_color=self.no_color)
        return Looks(theme.palette, self._glyphs, depth)

    @property
    def _glyphs(self) -> Glyphs:
        wanted = self._launch.settings.ascii
        if wanted is None:
            wanted = "utf" not in locale.getencoding().lower()
        return ASCII if wanted else BLOCKS

    def get_default_screen(self) -> Screen[None]:
        """Return the chat."""
        return ChatScreen(self._launch, self.looks, self._problems)

    def on_mount(self) -> None:
        """Follow changes of the theme."""
        self.theme_changed_signal.subscribe(self, self._theme_changed)

    async def action_quit(self) -> None:
        """End the program, and lose nothing."""
        chat = self.screen_stack[0]
        if isinstance(chat, ChatScreen):
            chat.close()
        self.exit()

    def _theme_changed(self, _theme: Theme) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.set_looks(self.looks)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer everything of the one table of commands, and what only the palette has."""
        if isinstance(screen, ChatScreen):
            for command in COMMANDS:
                if command.palette:
                    action = partial(screen.run_action, command.action)
                    yield SystemCommand(command.title, command.help, action)
            yield from (
                SystemCommand(
                    f"Profile: {name}",
                    "Restart the engine with what was learned there",
                    partial(screen.action_profile, name),
                )
                for name in self._profiles()
            )
        yield SystemCommand("Theme", "Choose other colours", self.action_change_theme)
        yield SystemCommand("Screenshot", "Save the screen as an SVG picture", self.deliver_screenshot)

    def _profiles(self) -> list[str]:
        try:
            return list_profiles()
        except EngineError:
            return []
