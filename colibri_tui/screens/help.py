"""Keys and commands, made from the one table of them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from colibri_tui.actions import COMMANDS

WRITING = (
    ("Enter", "Send; while the model is busy, put in the queue"),
    ("Ctrl+J, Shift+Enter, Alt+Enter", "Begin a new line"),
    ("Up, Down", "Earlier prompts, from the first or last line"),
    ("PgUp, PgDn, End", "Scroll the chat; End follows the answer again"),
)
ATLAS = (
    ("t", "Heat: how often experts were chosen. Tiers: where they lie"),
    ("o", "Experts by number, or the most used first"),
    ("Arrows, h j k l, a click", "Choose an expert; Enter or two clicks tell all about it, c takes the cursor away"),
)
PATH = (
    ("Left, Right; with Shift ten", "Another token"),
    ("Up, Down", "Other layers"),
    ("s, c", "The slowest token; the newest"),
)
PANES = (("Click on a title", "Enlarge the pane, and put it back; on the x at its end: hide it"),)
KEY, SLASH = 32, 20


def key_name(key: str) -> str:
    """Return a Textual key as one says it: 'ctrl+n' is Ctrl+N, 'escape' is Esc."""
    names = {"escape": "Esc", "ctrl": "Ctrl", "alt": "Alt", "shift": "Shift"}
    return "+".join(names.get(part, part.upper()) for part in key.split("+"))


def help_text() -> Content:
    """Return the whole page."""
    lines: list[Content] = []

    def section(title: str, rows: list[tuple[str, str]], column: int) -> None:
        lines.append(Content.styled(title, "bold $accent"))
        for left, right in rows:
            lines.append(Content.assemble((f"  {left.ljust(column)}", "bold"), (f" {right}", "$text-muted")))
        lines.append(Content())

    keys = [(key_name(c.key), c.help) for c in COMMANDS if c.key]
    section("Keys", [*keys, ("Ctrl+P", "All of these by name, and colours and profiles")], KEY)
    section("Writing", list(WRITING), KEY)
    section("In the atlas (click it, or F2)", list(ATLAS), KEY)
    section("In the way of a token (F12)", list(PATH), KEY)
    section("With the mouse", list(PANES), KEY)
    commands = [(", ".join((c.usage, *c.slash[1:])), c.help) for c in COMMANDS if c.slash]
    section("Commands, typed as a message", commands, SLASH)
    return Content("\n").join(lines[:-1])


class HelpScreen(ModalScreen[None]):
    """A page to read; Esc, F1 or q closes it."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """A page that scrolls."""
        with VerticalScroll(id="page") as page:
            page.border_title = "Help"
            page.border_subtitle = "Esc closes"
            yield Static(help_text())
