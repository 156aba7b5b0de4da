"""Rows of coloured cells as Textual strips, fast enough for ten pictures a second.

A frame of 76 layers x 256 experts is almost 10 000 cells. Building a style for each takes 200 ms; looking
styles and escape sequences up in a table of at most 256 takes a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import sub

import numpy as np
import numpy.typing as npt
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
    """Every cell that can occur, with its escape sequence, each `repeat` columns wide."""

    def __init__(self, looks: Sequence[tuple[str, Style]], repeat: int, color_system: ColorSystem) -> None:
        """looks: (glyph, style) per index; color_system: of the console that will draw."""
        self.repeat = repeat
        self._system = color_system
        self._segments = [Segment(glyph * repeat, style) for glyph, style in looks]
        self._ansi = [self._escaped(segment) for segment in self._segments]

    def _escaped(self, segment: Segment) -> str:
        """Return a segment as escape sequences that hold whatever was set before."""
        codes = Strip.render_ansi(segment.style, self._system) if segment.style is not None else ""
        return f"\x1b[0;{codes}m{segment.text}" if codes else f"\x1b[0m{segment.text}"

    def strip(self, row: npt.NDArray[np.uint8], before: Sequence[Segment] = (), after: Sequence[Segment] = ()) -> Strip:
        """Return the strip of a row of indices between two margins; equal neighbours become one segment."""
        ends = [*(np.flatnonzero(row[1:] != row[:-1]) + 1).tolist(), len(row)]
        lengths = map(sub, ends, [0, *ends])
        runs = list(zip(row[np.array(ends) - 1].tolist(), lengths, strict=True))
        segments, ansi = self._segments, self._ansi
        cells = [segments[c] if n == 1 else Segment(segments[c].text * n, segments[c].style) for c, n in runs]
        text = [ansi[c] if n == 1 else ansi[c] + segments[c].text * (n - 1) for c, n in runs]
        text = [*map(self._escaped, before), *text, *map(self._escaped, after), "\x1b[0m"]
        margins = sum(segment.cell_length for segment in (*before, *after))
        return CellStrip([*before, *cells, *after], len(row) * self.repeat + margins, "".join(text))
