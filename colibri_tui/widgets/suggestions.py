"""The list above the composer of what it could complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from colibri_tui.completion import Suggestion
from colibri_tui.render.clean import clean
from colibri_tui.render.wrap import shorten

ROWS: Final = 8
"""Suggestions that are seen at once; the list scrolls with the chosen one."""
_LABEL_MAX: Final = 36


def pad(text: str, width: int) -> str:
    """Cut or fill a text to so many cells."""
    text = shorten(text, width)
    return text + " " * (width - cell_len(text))


class SuggestionList(Static):
    """One line a suggestion, the chosen one marked; not displayed when there is none."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    SuggestionList {
        height: auto; width: 1fr; display: none;
        background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
        &:ansi { background: ansi_default; }
    }
    SuggestionList.-shown { display: block; }
    """

    class Picked(Message):
        """A suggestion was clicked."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._suggestions: Sequence[Suggestion] = ()
        self._chosen = 0
        self._first = 0

    def show(self, suggestions: Sequence[Suggestion], chosen: int) -> None:
        """Show these suggestions."""
        rows = max(min(ROWS, self.screen.size.height // 3), 2)
        self._first = min(max(chosen - rows // 2, 0), max(len(suggestions) - rows, 0))
        self._suggestions, self._chosen = suggestions, chosen
        seen = suggestions[self._first : self._first + rows]
        labels = [clean(suggestion.label) for suggestion in seen]
        width = min(max((cell_len(label) for label in labels), default=0), _LABEL_MAX)
        lines = [self._line(n, label, seen[n].help, width) for n, label in enumerate(labels)]
        self.update(Content("\n").join(lines))
        self.set_class(bool(suggestions), "-shown")

    def _line(self, number: int, label: str, help: str, width: int) -> Content:
        chosen = self._first + number == self._chosen
        text = f" {pad(label, width)}  {clean(help)}"
        if chosen:
            room = max(self.container_size.width or self.screen.size.width, 1)
            plain = self.app.current_theme.ansi
            return Content.styled(pad(text, room), "reverse" if plain else "bold on $block-cursor-background 25%")
        return Content.assemble((text[: width + 3], "bold"), (text[width + 3 :], "$text-muted"))

    def on_click(self, event: Click) -> None:
        """Take the suggestion under the pointer."""
        event.stop()
        number = self._first + event.y
        if number < len(self._suggestions):
            self.post_message(self.Picked(number))
