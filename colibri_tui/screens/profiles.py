"""Choosing a profile: whose learned history the engine starts from and learns into."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui import histories
from colibri_tui.bindings import bind, keymap_of
from colibri_tui.profiles import check_name, list_profiles
from colibri_tui.render.clean import clean
from colibri_tui.screens.conversations import ago
from colibri_tui.widgets.choice_list import ChoiceList
from engine.errors import EngineError

HINT: Final = "Enter uses it   {profiles_freeze} freezes or thaws   a new name makes a new one   {close} closes"


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile in the list. details: what it knows of the present model, or what kept that from being read."""

    name: str
    details: str


def entries(key: str, now: float) -> list[Entry]:
    """Return all profiles, with what each knows of a model. Raises EngineError when there is no looking."""
    return [Entry(name, _details(name, key, now)) for name in list_profiles()]


def _details(name: str, key: str, now: float) -> str:
    if not key:
        return ""
    try:
        summary = histories.summarise(name, key)
    except EngineError as error:
        return str(error)
    if not summary.selections:
        known = "nothing learned about this model yet"
    else:
        known = f"{summary.selections:,} choices of {summary.experts:,} experts"
    last = f", last used {ago(summary.turns[-1].at, now)}" if summary.turns else ""
    rates = [turn.hit_rate for turn in summary.turns[-20:] if turn.hit_rate is not None]
    hits = f", {100 * sum(rates) / len(rates):.0f} % from memory lately" if rates else ""
    return f"{known}{hits}{last}" + (", frozen: it does not learn" if summary.frozen else "")


class ProfilesScreen(ModalScreen[str | None]):
    """Ends with a profile's name, or None. current: the one in use; key: the present model's, '' without one."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "dismiss", priority=True),
        bind("list_down", "move(1)", show=False),
        bind("list_up", "move(-1)", show=False),
        bind("profiles_freeze", "freeze", priority=True),
    ]

    listed = query_one(OptionList)
    typed = query_one(Input)

    def __init__(self, current: str, key: str) -> None:
        super().__init__()
        self._current, self._key = current, key
        self._entries: list[Entry] = []

    def compose(self) -> ComposeResult:
        """The list, and a line for a new name."""
        with Vertical(id="box") as box:
            box.border_title = "Profiles"
            yield ChoiceList(id="list")
            yield Input(placeholder="or the name of a new profile", id="name")
            yield Static(keymap_of(self.app).fill(HINT), id="hint")

    def on_mount(self) -> None:
        """Look."""
        self.typed.focus()
        self._list()

    @work(exclusive=True, group="list")
    async def _list(self) -> None:
        try:
            found = await asyncio.to_thread(entries, self._key, time.time())
        except EngineError as error:
            self._say(str(error))
            return
        marked = self.listed.highlighted
        self._entries = found
        self.listed.clear_options()
        self.listed.add_options([Option(self._row(entry)) for entry in found])
        names = [entry.name for entry in found]
        current = names.index(self._current) if self._current in names else 0
        self.listed.highlighted = current if marked is None else marked

    def _row(self, entry: Entry) -> Content:
        now = "  in use" if entry.name == self._current else ""
        details = f"\n  {clean(entry.details)}" if entry.details else ""
        return Content.assemble(clean(entry.name), (now, "$text-accent"), (details, "$text-muted"))

    def action_move(self, step: int) -> None:
        """Move through the list without leaving the line."""
        if step > 0:
            self.listed.action_cursor_down()
        else:
            self.listed.action_cursor_up()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def choose(self) -> None:
        """End with the new name if one is written, else with the marked profile."""
        name = self.typed.value.strip()
        if not name:
            if self.listed.highlighted is not None:
                self.dismiss(self._entries[self.listed.highlighted].name)
            return
        try:
            self.dismiss(check_name(name))
        except EngineError as error:
            self._say(str(error))

    @work(exclusive=True, group="freeze")
    async def action_freeze(self) -> None:
        """Keep the marked profile from learning about this model, or let it learn again."""
        if self.listed.highlighted is None or not self._key:
            return
        name, key = self._entries[self.listed.highlighted].name, self._key

        def turn() -> None:
            histories.freeze(name, key, not histories.summarise(name, key).frozen)

        try:
            await asyncio.to_thread(turn)
        except EngineError as error:
            self._say(str(error))
        else:
            self._say(f"This holds from the next start of the engine with profile {name}")
            self._list()

    def _say(self, words: str) -> None:
        self.query_one("#hint", Static).update(Content(clean(words)))
