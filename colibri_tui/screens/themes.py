"""Choosing colours: every theme is put on while it is marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.widgets.choice_list import ChoiceList

HINT: Final = "{list_choose} keeps it, also for the next start   {close} goes back"


class ThemesScreen(ModalScreen[str | None]):
    """Ends with the name of the theme to keep, or None: then the one before is on again.

    themes: (name, words) of all there are, in order.
    """

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [bind("close", "back", priority=True)]

    listed = query_one(OptionList)

    def __init__(self, themes: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._themes = themes
        self._before = ""

    def compose(self) -> ComposeResult:
        """The list, and one line for what can be done."""
        with Vertical(id="box") as box:
            box.border_title = "Themes"
            rows = [Content.assemble(name.ljust(22), (words, "$text-muted")) for name, words in self._themes]
            yield ChoiceList(*[Option(row) for row in rows], id="list")
            yield Static(keymap_of(self.app).fill(HINT), id="hint")

    def on_mount(self) -> None:
        """Begin at the theme that is on."""
        self._before = self.app.theme
        names = [name for name, _ in self._themes]
        self.listed.highlighted = names.index(self._before) if self._before in names else 0
        self.listed.focus()

    @on(OptionList.OptionHighlighted)
    def _try(self, message: OptionList.OptionHighlighted) -> None:
        self.app.theme = self._themes[message.option_index][0]

    @on(OptionList.OptionSelected)
    def _keep(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self._themes[message.option_index][0])

    def action_back(self) -> None:
        """Put the theme on that was on before."""
        self.app.theme = self._before
        self.dismiss(None)
