"""The line in which one writes what to look for in a conversation."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input, Static

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.widgets.finder import Found


class FindBar(Horizontal):
    """Not displayed until `open`. Every change of the words is told, and every wish to go on or to end."""

    DEFAULT_CSS = """
    FindBar {
        height: 1; width: 1fr; display: none; padding: 0 1; background: $panel;
        &:ansi { background: ansi_default; }
        Input, Input:focus { height: 1; width: 1fr; border: none; padding: 0; background: $panel; }
        Input:ansi { background: ansi_default; }
        Static { width: auto; height: 1; padding: 0 0 0 1; color: $text-muted; }
    }
    FindBar.-shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("find_before", "step(-1)", priority=True),
        bind("find_next", "step(1)", priority=True),
        bind("find_close", "close", priority=True),
    ]

    words = query_one(Input)

    class Wanted(Message):
        """Other words are looked for."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Step(Message):
        """The next place is wanted (1), or the one before (-1)."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Closed(Message):
        """The search is over."""

    def compose(self) -> ComposeResult:
        """The words, and how the search stands."""
        yield Input(placeholder="find in this conversation", compact=True)
        yield Static()

    def open(self, text: str = "") -> None:
        """Begin a search."""
        self.add_class("-shown")
        self.words.focus()
        if text:
            self.words.value = text
        self.words.action_select_all()
        self.post_message(self.Wanted(self.words.value))

    def show(self, found: Found) -> None:
        """Say how the search stands."""
        if not self.words.value.strip():
            said = "{find_close} closes"
        elif not found.total:
            said = "nowhere here   {find_close} closes"
        else:
            said = f"{found.number} of {found.total}   {{find_before}}, {{find_next}}   {{find_close}} closes"
        self.query_one(Static).update(Content(keymap_of(self.app).fill(said)))

    def action_step(self, step: int) -> None:
        """Go on."""
        self.post_message(self.Step(step))

    def action_close(self) -> None:
        """End the search."""
        self.remove_class("-shown")
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _changed(self, message: Input.Changed) -> None:
        message.stop()
        self.post_message(self.Wanted(message.value))
