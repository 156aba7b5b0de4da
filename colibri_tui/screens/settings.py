"""Every option of the engine and of the screen: what it is, where that came from, and a way to change it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.option_rows import OptionRow, has_few, next_value, option_rows, range_text, value_text
from colibri_tui.render.clean import clean
from colibri_tui.render.wrap import shorten
from colibri_tui.screens.keys import KeysScreen
from colibri_tui.settings import UI_HELP, Origin, Settings, is_switch, read_settings, ui_value
from colibri_tui.settings_file import change_setting
from colibri_tui.widgets.choice_list import ChoiceList
from colibri_tui.widgets.suggestions import pad
from engine.errors import EngineError
from engine.events import Ready
from engine.options import KNOB, EngineOptions

HINT: Final = "{list_choose} changes   {settings_reset} goes back to the default   {close} closes"
KEYS_ROW: Final = "keys"
KEYS_HELP: Final = "which key does what; a list to change them in"
NAME, VALUE, ORIGIN = 14, 20, 16

Resolve = Callable[[Settings], tuple[EngineOptions, Mapping[str, Origin]]]
"""What the engine would be started with under some settings, and where each option comes from."""


class SettingsScreen(ModalScreen[Settings]):
    """Ends with the settings as they are then. Every change is written to the file at once."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "back", priority=True),
        bind("settings_reset", "reset"),
    ]

    listed = query_one(OptionList)
    typed = query_one(Input)
    about = query_one("#about", Static)

    def __init__(
        self, settings: Settings, resolve: Resolve, running: EngineOptions | None, ready: Ready | None
    ) -> None:
        super().__init__()
        self._settings, self._resolve = settings, resolve
        self._in_force, self._ready = running, ready
        self._options, self._origins = resolve(settings)
        self._rows: list[OptionRow] = []
        self._said = ""

    def compose(self) -> ComposeResult:
        """The list, what there is to know about the marked option, and a line to write a value in."""
        with Vertical(id="box") as box:
            box.border_title = "Settings"
            box.border_subtitle = clean(str(self._settings.path))
            yield ChoiceList(id="list")
            yield Static(id="about")
            yield Input(id="value")
            yield Static(keymap_of(self.app).fill(HINT), id="hint")

    def on_mount(self) -> None:
        """Show everything."""
        self._list()
        self.listed.focus()

    def on_resize(self) -> None:
        """What help fits beside an option depends on the width."""
        self.call_after_refresh(self._list)

    @property
    def _names(self) -> list[str]:
        """What the rows are about: the engine's options, then the screen's."""
        return [*(row.knob.name for row in self._rows), *UI_HELP, KEYS_ROW]

    @property
    def _marked(self) -> str:
        return self._names[self.listed.highlighted or 0]

    def _list(self) -> None:
        """Draw all rows, keeping the mark where it is."""
        self._rows = option_rows(self._options, self._origins, self._in_force, self._ready)
        marked = self.listed.highlighted
        room = max(self.listed.size.width - NAME - VALUE - ORIGIN - 6, 0)
        self.listed.clear_options()
        self.listed.add_options([Option(_engine_row(row, room)) for row in self._rows])
        self.listed.add_options([Option(self._ui_row(name, room)) for name in UI_HELP])
        self.listed.add_option(Option(self._keys_row(room)))
        self.listed.highlighted = marked or 0

    def _keys_row(self, room: int) -> Content:
        count = len(self._settings.keys)
        return _row(KEYS_ROW, f"{count} changed", "settings file" if count else "default", KEYS_HELP, room)

    def _ui_row(self, name: str, room: int) -> Content:
        value = getattr(self._settings, name)
        origin = "default" if value == getattr(Settings(Path()), name) else "settings file"
        return _row(name, _ui_text(value), origin, UI_HELP[name], room)

    @on(OptionList.OptionHighlighted)
    def _explain(self) -> None:
        """Tell all there is to know about the marked option."""
        name = self._marked
        if name in KNOB:
            row = next(row for row in self._rows if row.knob.name == name)
            knob = row.knob
            parts = [f"{knob.help[0].upper()}{knob.help[1:]}.", f"It may be {range_text(knob)}."]
            if knob.lossy:
                parts.append("Lossy: it changes what the model answers.")
            if row.chosen:
                parts.append(f"Now {row.chosen}.")
            if row.waits:
                assert self._in_force is not None
                parts.append(
                    f"The engine runs with {value_text(knob, getattr(self._in_force, name))} until its next start."
                )
            if row.origin not in ("default", "settings file"):
                parts.append(f"{row.origin} wins over the file for as long as it is given.")
            where = f"{knob.flag}" + (f", ${knob.env}" if knob.env else "")
            words = Content.assemble(" ".join(parts), ("  " + where, "$text-muted"))
        else:
            words = Content(KEYS_HELP if name == KEYS_ROW else UI_HELP[name])
        said, self._said = self._said, ""
        self.about.update(Content.assemble((said + "  ", "bold $warning"), words) if said else words)

    @on(OptionList.OptionSelected)
    def _change(self) -> None:
        """Go to the next value where there are few; else let one be written."""
        name = self._marked
        if name == KEYS_ROW:
            self.app.push_screen(KeysScreen(self._settings), self._take_keys)
        elif name in KNOB and has_few(KNOB[name]):
            self._store(name, next_value(KNOB[name], getattr(self._options, name)))
        elif name in UI_HELP and is_switch(name):
            self._store(name, {None: True, True: False, False: None}[getattr(self._settings, name)])
        else:
            value = getattr(self._settings, name) if name in UI_HELP else getattr(self._options, name)
            text = "" if value is None else f"{value}" if name in UI_HELP else value_text(KNOB[name], value)
            self.add_class("-writing")
            self.typed.value = text
            self.typed.focus()
            self.typed.action_select_all()

    def _take_keys(self, settings: Settings | None) -> None:
        if settings is not None:
            self._settings = settings
            self._list()

    @on(Input.Submitted)
    def _written(self) -> None:
        name, text = self._marked, self.typed.value.strip()
        self._leave_line()
        if not text:
            self._store(name, None)
        else:
            try:
                self._store(name, KNOB[name].parse(text, "settings") if name in KNOB else ui_value(name, text))
            except EngineError as error:
                self._say(str(error))

    def action_reset(self) -> None:
        """Take the marked option out of the file."""
        if self._marked != KEYS_ROW:
            self._store(self._marked, None)

    def _store(self, name: str, value: Any) -> None:
        """Write a value to the file, and show what holds now."""
        path, table = self._settings.path, "engine" if name in KNOB else "ui"
        text = path.read_bytes() if path.exists() else None
        try:
            change_setting(path, table, name, value)
            try:
                self._settings = read_settings(os.environ, path)
                self._options, self._origins = self._resolve(self._settings)
            except EngineError:
                if text is None:
                    path.unlink()
                else:
                    path.write_bytes(text)
                raise
        except (EngineError, OSError) as error:
            self._say(str(error))
            return
        self._list()

    def _say(self, words: str) -> None:
        self._said = clean(words)
        self._explain()

    def _leave_line(self) -> None:
        self.remove_class("-writing")
        self.listed.focus()

    def action_back(self) -> None:
        """Leave the line, or the screen."""
        if self.has_class("-writing"):
            self._leave_line()
        else:
            self.dismiss(self._settings)


def _engine_row(row: OptionRow, room: int) -> Content:
    value = f"{row.value} ({row.chosen})" if row.chosen else row.value
    mark = "lossy, " if row.knob.lossy else ""
    waits = "next start, " if row.waits else ""
    return _row(row.knob.name, value, row.origin, f"{mark}{waits}{row.knob.help}", room)


def _row(name: str, value: str, origin: str, help: str, room: int) -> Content:
    parts = [
        (pad(name, NAME), "bold"),
        (f" {pad(clean(value), VALUE)}", "" if origin == "default" else "bold $accent"),
        (f" {pad(clean(origin), ORIGIN)}", "$text-muted"),
    ]
    if room >= 16:
        parts.append((f" {shorten(help, room)}", "$text-muted"))
    return Content.assemble(*parts)


def _ui_text(value: Any) -> str:
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
