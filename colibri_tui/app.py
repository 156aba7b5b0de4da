"""The Textual application: colours, the command palette, and the one screen everything happens on."""

from __future__ import annotations

import asyncio
import locale
import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar, Protocol, runtime_checkable

from textual import constants, on, work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme
from textual.types import AnimationLevel

from colibri_tui import paths
from colibri_tui.actions import COMMANDS
from colibri_tui.bindings import bind
from colibri_tui.launch import Launch
from colibri_tui.profiles import list_profiles
from colibri_tui.render.ascii import AsciiFilter
from colibri_tui.render.glyphs import ASCII, BLOCKS, LINES, Glyphs
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import depth_of
from colibri_tui.render.xterm import XtermFilter, ground
from colibri_tui.screens.chat import ChatScreen
from colibri_tui.screens.chat_view import STYLE_SHEET
from colibri_tui.screens.keys import KeysScreen
from colibri_tui.screens.themes import ThemesScreen
from colibri_tui.screens.tuning import SettingsChanged
from colibri_tui.settings import read_settings
from colibri_tui.settings_file import change_setting, written
from colibri_tui.themes import DEFAULT_THEME, PLAIN_THEME, ColourTheme, load_themes, palette_for, stamp
from engine.errors import EngineError

SWITCH_SECONDS = 0.0005
"""How long a thread that writes or reads files may keep a key waiting for the interpreter, instead of Python's 5 ms."""
WATCH_SECONDS = 2.0
"""How often the settings and the person's theme files are looked at: two system calls a file."""


@runtime_checkable
class Dressed(Protocol):
    """A screen that draws with the theme's looks."""

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""


def _grounded(theme: Theme) -> Theme:
    """Return a theme whose grounds are among the 256 colours of a terminal that has no more."""
    if theme.ansi:
        return theme
    background, surface, panel = (ground(c) if c else None for c in (theme.background, theme.surface, theme.panel))
    return replace(theme, background=background, surface=surface, panel=panel)


class ColibriApp(App[int], inherit_bindings=False):
    """`colibri-tui` on a terminal."""

    TITLE = "colibri"
    # The style sheet of a default screen is not loaded by itself.
    CSS_PATH: ClassVar[list[str | PurePath]] = [Path(__file__).with_suffix(".tcss"), STYLE_SHEET]
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("palette", "command_palette", priority=True),
        bind("quit", "quit", show=False, priority=True),
        Binding("ctrl+c", "help_quit", show=False, system=True),
    ]
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, launch: Launch) -> None:
        # Without colour, colours must be the terminal's own: then Textual leaves them out altogether.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._launch = launch
        self._chat: ChatScreen | None = None
        self.typed = -math.inf  # see `keys_first.Typist`
        self._ascii_filter = AsciiFilter()
        self._xterm_filter = XtermFilter()
        self._themes: dict[str, ColourTheme] = {}
        self._theme_stamp = stamp(paths.themes_dir())
        self._settings_stamp = written(launch.settings.path)
        self.keymap = launch.keymap
        self._problems = [*self._load_themes(), *self._key_problems()]
        self.theme = self._first_theme()
        self.animation_level = self._animation

    def _load_themes(self) -> list[str]:
        """Read our themes and the person's own; return what is wrong with which file."""
        before = self._themes
        self._themes, problems = load_themes(paths.themes_dir())
        for name in before.keys() - self._themes.keys():
            self.unregister_theme(name)
        few = self.console.color_system == "256"
        for theme in self._themes.values():
            self.register_theme(_grounded(theme.theme) if few else theme.theme)
        return problems

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
        theme = self._themes.get(self.theme)
        palette = theme.palette if theme else palette_for(self._themes, dark=self.current_theme.dark)
        depth = depth_of(self.console.color_system, ansi_theme=self.current_theme.ansi, no_color=self.no_color)
        return Looks(palette, self._glyphs, depth)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what every line goes through before it is written; see `render.ascii` and `render.xterm`."""
        filters = list(super().get_line_filters())
        if self.console.color_system == "256":
            filters.append(self._xterm_filter)
        if self._glyphs is ASCII:
            filters.append(self._ascii_filter)
        return filters

    def get_key_display(self, binding: Binding) -> str:
        """Return a key's name for the footer: in words where its symbol cannot be drawn."""
        return "enter" if binding.key == "enter" and self._glyphs is ASCII else super().get_key_display(binding)

    @property
    def _glyphs(self) -> Glyphs:
        wanted = self._launch.settings.ascii
        if wanted is None:
            wanted = "utf" not in locale.getencoding().lower()
        if wanted:
            return ASCII
        return LINES if self.console.color_system in ("256", "truecolor") else BLOCKS

    def get_default_screen(self) -> Screen[None]:
        """Return the chat."""
        self._chat = ChatScreen(self._launch, self.looks, self._problems)
        return self._chat

    def join(self, timeout: float) -> bool:
        """Wait until the engine has saved and ended, once the application has; say whether it did in time."""
        return self._chat is None or self._chat.join(timeout)

    def on_mount(self) -> None:
        """Follow changes of the theme, and of the person's theme files."""
        self.set_keymap(self.keymap.for_textual())
        sys.setswitchinterval(SWITCH_SECONDS)
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self.set_interval(WATCH_SECONDS, self._watch_theme_files)
        self.set_interval(WATCH_SECONDS, self._watch_settings)

    async def on_event(self, event: Event) -> None:
        """Note when a key comes, on its way to whoever it is for, and decide who that is."""
        if isinstance(event, Key):
            self.typed = time.monotonic()
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            if isinstance(self.screen, ChatScreen):
                self.screen.take_text(event)
            elif isinstance(self.screen, KeysScreen) and isinstance(event, Key) and self.screen.take_key(event.key):
                return
        await super().on_event(event)

    async def action_quit(self) -> None:
        """End the program, and lose nothing."""
        chat = self.screen_stack[0]
        if isinstance(chat, ChatScreen):
            chat.close()
        self.exit()

    @work(exclusive=True, group="themes")
    async def _watch_theme_files(self) -> None:
        """Read the themes again when one of the person's own was written."""
        now = await asyncio.to_thread(stamp, paths.themes_dir())
        if now == self._theme_stamp:
            return
        self._theme_stamp = now
        for problem in self._load_themes():
            self.notify(problem, severity="warning", markup=False)
        if self.theme not in self.available_themes:
            self.theme = self._first_theme()
        else:
            self.mutate_reactive(ColibriApp.theme)  # the same name, but other colours perhaps

    @work(exclusive=True, group="watch")
    async def _watch_settings(self) -> None:
        """Read the settings again when the file was written, by whomever; while a window changes them, it tells."""
        path = self._launch.settings.path
        now = await asyncio.to_thread(written, path)
        chat = self.screen_stack[-1] if self.screen_stack else None  # none: the program ends
        if now == self._settings_stamp or not isinstance(chat, ChatScreen):
            return
        try:
            settings = await asyncio.to_thread(read_settings, os.environ, path)
        except EngineError as error:
            self.notify(str(error), severity="warning", markup=False)
        else:
            chat.take_settings(settings)
        self._settings_stamp = now

    def action_theme(self, name: str = "") -> None:
        """Put a theme on and keep it; without a name, let one be chosen."""
        if not name:
            own = [(theme, _theme_words(self.available_themes[theme])) for theme in self._themes]
            others = [
                (theme, _theme_words(self.available_themes[theme]))
                for theme in sorted(self.available_themes)
                if theme not in self._themes and not self.available_themes[theme].ansi
            ]
            self.push_screen(ThemesScreen([*own, *others]), self._theme_chosen)
        elif name in self.available_themes:
            self.theme = name
            self._keep_theme(name)
        else:
            self.notify(f"There is no theme “{name}”; /theme alone lists them", severity="warning", markup=False)

    def _theme_chosen(self, name: str | None) -> None:
        if name is not None:
            self._keep_theme(name)

    @work(thread=True, group="settings")
    def _keep_theme(self, name: str) -> None:
        try:
            change_setting(self._launch.settings.path, "ui", "theme", name)
        except EngineError as error:
            self.call_from_thread(self.notify, str(error), severity="warning", markup=False)

    @on(SettingsChanged)
    def _take_settings(self, message: SettingsChanged) -> None:
        """Go by other settings."""
        if not self.screen_stack:  # the program ends
            return
        before, self._launch = self._launch.settings, replace(self._launch, settings=message.settings)
        if before.keys != message.settings.keys:
            self._take_keys()
        self.theme = self._first_theme()
        self.animation_level = self._animation
        self._theme_changed(self.current_theme)
        self.refresh(layout=True)

    def _key_problems(self) -> list[str]:
        return [f"{self._launch.settings.path}: {problem}" for problem in self.keymap.problems]

    def _take_keys(self) -> None:
        """Go by other keys, and say what is wrong with them."""
        self.keymap = self._launch.keymap
        self.set_keymap(self.keymap.for_textual())
        for problem in self._key_problems():
            self.notify(problem, severity="warning", markup=False)
        for screen in self.screen_stack:
            if isinstance(screen, ChatScreen):
                screen.keys_changed()

    @property
    def _animation(self) -> AnimationLevel:
        return "none" if self._launch.settings.reduce_motion else constants.TEXTUAL_ANIMATIONS

    def _theme_changed(self, _theme: Theme) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, Dressed):
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
                    "Learn into it, and load what was learned there",
                    partial(screen.action_profile, name),
                )
                for name in self._profiles()
            )
        yield SystemCommand("Screenshot", "Save the screen as an SVG picture", self.deliver_screenshot)

    def _profiles(self) -> list[str]:
        try:
            return list_profiles()
        except EngineError:
            return []


def _theme_words(theme: Theme) -> str:
    """Return what there is to say about a theme."""
    if theme.ansi:
        return "the terminal's own colours"
    return "dark" if theme.dark else "light"
