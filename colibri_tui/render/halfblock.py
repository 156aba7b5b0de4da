"""Rows of coloured cells as Textual strips, fast enough for ten pictures a second.

A frame of 76 layers x 256 experts is almost 10 000 cells. Building a style per cell takes 200 ms; looking
segments up in a table of at most 256 takes one, and joining their ready escape sequences half of one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip


class CellStrip(Strip):
    """A strip whose escape sequences are known already. Cutting it gives ordinary strips."""

    __slots__ = ["_ansi"]

    def __init__(self, segments: Iterable[Segment], cell_length: int, ansi: str) -> None:
        super().__init__(segments, cell_length)
        self._ansi = ansi

    def render(self, console: Console) -> str:
        """Return the escape sequences, for the colour system the table was made for."""
        return self._ansi


class CellTable:
    """Every cell that can occur, as a segment and as escape sequences, each `repeat` columns wide."""

    def __init__(self, looks: Sequence[tuple[str, Style]], repeat: int, color_system: ColorSystem) -> None:
        """looks: (glyph, style) per index; color_system: of the console that will draw."""
        self.repeat = repeat
        self._system = color_system
        self._segments = [Segment(glyph * repeat, style) for glyph, style in looks]
        self._ansi = [self.ansi_of(segment) for segment in self._segments]

    def ansi_of(self, segment: Segment) -> str:
        """Return the escape sequences of any segment."""
        if segment.style is None:
            return segment.text
        return Strip.render_style(segment.style, segment.text, self._system)

    def strip(
        self, row: Sequence[int], before: Sequence[Segment] = (), after: Sequence[Segment] = ()
    ) -> Strip:
        """Return the strip of a row of indices between two margins."""
        segments, ansi = self._segments, self._ansi
        margins = sum(segment.cell_length for segment in (*before, *after))
        text = "".join([ansi[cell] for cell in row])
        if before or after:
            text = "".join(map(self.ansi_of, before)) + text + "".join(map(self.ansi_of, after))
        return CellStrip(
            [*before, *[segments[cell] for cell in row], *after], len(row) * self.repeat + margins, text
        )
