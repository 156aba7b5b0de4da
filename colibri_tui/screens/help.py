"""Keys and commands, made from the tables of both, with the keys in force."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from colibri_tui.actions import COMMANDS
from colibri_tui.bindings import bind, keymap_of
from colibri_tui.key_names import key_name
from colibri_tui.key_table import KEYS, PLACES
from colibri_tui.keymap import Keymap

MOUSE = (
    ("Click on a pane's title", "Enlarge the pane, and put it back; on the x at its end: hide it"),
    ("Drag", "Select text; {interrupt} copies it"),
    ("Click on “copy”", "Copy a piece of code"),
)
KEY, SLASH = 32, 24
WIDTH: Final = 96
"""Columns of the page where there is room."""


def keys_of(places: Sequence[str], keymap: Keymap) -> list[tuple[str, str]]:
    """Return the keys that are in force in some places, with what they do."""
    rows: dict[str, list[str]] = {}
    for key in KEYS:
        if key.place in places:
            said = (key_name(name) for name in keymap.keys(key.id) if not name.startswith("super"))
            rows.setdefault(key.help, []).extend(said)
    return [(", ".join(dict.fromkeys(keys)), words) for words, keys in rows.items() if keys]


def help_text(keymap: Keymap, width: int = WIDTH) -> Content:
    """Return the whole page for so many columns: what a key does stays in its own."""
    lines: list[Content] = []

    def section(title: str, rows: list[tuple[str, str]], column: int) -> None:
        lines.extend(Content.styled(line, "bold $accent") for line in textwrap.wrap(title, max(width, 8)))
        column = min(column, max(width // 3, 8))
        for left, right in rows:
            words = textwrap.wrap(right, max(width - column - 3, 8))
            lefts = [left] if len(left) <= column else [left, ""]
            for key, part in zip_longest(lefts, words if len(lefts) == 1 else ["", *words], fillvalue=""):
                lines.append(Content.assemble((f"  {key.ljust(column)}", "bold"), (f" {part}", "$text-muted")))
        lines.append(Content())

    section(PLACES["chat"].title, keys_of(("chat", "everywhere"), keymap), KEY)
    for name, place in PLACES.items():
        if name not in ("chat", "everywhere") and (rows := keys_of((name,), keymap)):
            section(keymap.fill(place.title), rows, KEY)
    section("With the mouse", [(left, keymap.fill(right)) for left, right in MOUSE], KEY)
    commands = [(", ".join((c.usage, *c.slash[1:])), c.help) for c in COMMANDS if c.slash]
    section("Commands, typed as a message", commands, SLASH)
    return Content("\n").join(lines[:-1])


class HelpScreen(ModalScreen[None]):
    """A page to read."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "dismiss"),
        bind("help", "dismiss", show=False),
        bind("help_close", "dismiss", show=False),
    ]

    def compose(self) -> ComposeResult:
        """A page that scrolls."""
        with VerticalScroll(id="page") as page:
            page.border_title = "Help"
            page.border_subtitle = keymap_of(self.app).fill("{close} closes")
            yield Static(help_text(keymap_of(self.app)))

    def on_resize(self) -> None:
        """Set the page for the width there is."""
        self.call_after_refresh(self._set)

    def _set(self) -> None:
        page = self.query_one("#page", VerticalScroll)
        page.query_one(Static).update(help_text(keymap_of(self.app), page.scrollable_content_region.width))
