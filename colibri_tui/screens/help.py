"""Keys and commands, made from the table of commands and from what widgets bind."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import Static

from colibri_tui.actions import COMMANDS
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.find_bar import FindBar
from colibri_tui.widgets.message_log import MessageLog
from colibri_tui.widgets.panes.path import PathPane

PLACES: Final[tuple[tuple[str, type[DOMNode]], ...]] = (
    ("Writing", Composer),
    ("In the conversation (Tab)", MessageLog),
    ("Looking for words (Ctrl+F)", FindBar),
    ("In the atlas (F2, or Tab)", Atlas),
    ("In the way of a token (F12)", PathPane),
)
"""Where keys mean something of their own, besides the commands."""
MOUSE = (
    ("Click on a pane's title", "Enlarge the pane, and put it back; on the x at its end: hide it"),
    ("Drag", "Select text; Ctrl+C copies it"),
    ("Click on “copy”", "Copy a piece of code"),
)
KEY, SLASH = 32, 24
WIDTH: Final = 96
"""Columns of the page where there is room."""


def key_name(key: str) -> str:
    """Return a Textual key as one says it: 'ctrl+n' is Ctrl+N, 'escape' is Esc."""
    names = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?"}
    *held, last = key.split("+")
    said = last if len(last) == 1 and not held else last.capitalize()
    return "+".join([*(part.capitalize() for part in held), names.get(last, said)])


def keys_of(place: type[DOMNode]) -> list[tuple[str, str]]:
    """Return the keys of a widget with what they do, as they are bound."""
    rows: dict[str, list[str]] = {}
    for kind in place.__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.description:
                keys = [key_name(key) for key in binding.key.split(",") if not key.startswith("super")]
                rows.setdefault(binding.tooltip or binding.description, []).extend(keys)
        if kind.__dict__.get("_inherit_bindings") is False:
            break
    return [(", ".join(dict.fromkeys(keys)), words) for words, keys in rows.items()]


def help_text(width: int = WIDTH) -> Content:
    """Return the whole page for so many columns: what a key does stays in its own."""
    lines: list[Content] = []

    def section(title: str, rows: list[tuple[str, str]], column: int) -> None:
        lines.append(Content.styled(title, "bold $accent"))
        column = min(column, max(width // 3, 8))
        for left, right in rows:
            words = textwrap.wrap(right, max(width - column - 3, 8))
            lefts = [left] if len(left) <= column else [left, ""]
            for key, part in zip_longest(lefts, words if len(lefts) == 1 else ["", *words], fillvalue=""):
                lines.append(Content.assemble((f"  {key.ljust(column)}", "bold"), (f" {part}", "$text-muted")))
        lines.append(Content())

    keys = [(key_name(c.key), c.help) for c in COMMANDS if c.key]
    section("Keys", [*keys, ("Ctrl+P", "All of these by name, and colours and profiles")], KEY)
    for title, place in PLACES:
        section(title, keys_of(place), KEY)
    section("With the mouse", list(MOUSE), KEY)
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

    def on_resize(self) -> None:
        """Set the page for the width there is."""
        self.call_after_refresh(self._set)

    def _set(self) -> None:
        page = self.query_one("#page", VerticalScroll)
        page.query_one(Static).update(help_text(page.scrollable_content_region.width))
