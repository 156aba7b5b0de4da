"""Which panes are shown beside the chat."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.widgets.choice_list import ChoiceList
from colibri_tui.widgets.pane_column import PaneColumn
from colibri_tui.widgets.panes import PANES

_KEYS = "{list_choose} shows or hides. The key at the right enlarges. {close} closes"


class PanesScreen(ModalScreen[str | None]):
    """A list of all panes; returns the name of one to enlarge, or None."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "close"),
        bind("panes", "close", show=False),
        bind("panes_switch", "switch"),
        *(bind(pane.NAME, f"enlarge('{pane.NAME}')", show=False) for pane in PANES),
    ]

    def __init__(self, column: PaneColumn) -> None:
        super().__init__()
        self._column = column

    def compose(self) -> ComposeResult:
        """The list, and the keys below it."""
        with Vertical(id="panes") as box:
            box.border_title = "Panes"
            yield ChoiceList(*(Option(self._line(n), id=pane.NAME) for n, pane in enumerate(PANES)))
            yield Static(keymap_of(self.app).fill(_KEYS), id="keys")

    def _line(self, number: int) -> Content:
        pane = PANES[number]
        shown = pane.NAME not in self._column.hidden
        room = pane.NAME in {seen.NAME for seen in self._column.seen()} or self._column.enlarged or not shown
        key = keymap_of(self.app).said(pane.NAME) if keymap_of(self.app).keys(pane.NAME) else ""
        note = "" if room else "  (no room now)"
        return Content.assemble(
            ("[x] " if shown else "[ ] ", "bold"), (f"{pane.TITLE:<17}", "bold" if shown else ""),
            (f"{key:<3} ", "$accent"), f"{pane.HELP_LINE}{note}",
        )  # fmt: skip

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._toggle(event.option_index)

    def action_switch(self) -> None:
        """Show or hide the marked one."""
        number = self.query_one(OptionList).highlighted
        if number is not None:
            self._toggle(number)

    def _toggle(self, number: int) -> None:
        self._column.toggle(PANES[number].NAME)
        self.call_after_refresh(self._renew)

    def _renew(self) -> None:
        options = self.query_one(OptionList)
        for number in range(len(PANES)):
            options.replace_option_prompt_at_index(number, self._line(number))

    def action_enlarge(self, name: str) -> None:
        """Close, and give one pane the whole screen."""
        self.dismiss(name)

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)
