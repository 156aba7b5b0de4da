"""Rows of coloured cells as Textual strips, fast enough for ten pictures a second and cheap for the terminal.

A frame of 76 layers x 256 experts is almost 10 000 cells. Building a style for each takes 200 ms, and a whole escape
sequence for each makes 380 KiB. Here every cell that can follow another is worked out once: which glyph needs the
fewest new colours. A cell of two halves may be drawn as an upper half, as a lower half with its colours exchanged, or
as a space. That leaves 25 to 155 KiB a frame, and a lookup a cell; and as a token changes one cell in ten, what is
written over the frame before is a tenth of that again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

UPPER, LOWER = "▀", "▄"
_EXCHANGED: Final = {UPPER: LOWER, LOWER: UPPER}


_Ways: TypeAlias = "list[tuple[str, _Ways, int] | None]"
"""By the index of a cell: its escape sequence, and the ways to whatever follows it."""


class _Pen(NamedTuple):
    """What a terminal would draw with: SGR codes of foreground and background, '' = default, and other attributes."""

    ink: str
    ground: str
    other: str


class CellStrip(Strip):
    """A row of cells between two margins, worked out when somebody wants it: most rows change again before.

    Drawn whole it is escape sequences; who cuts it gets ordinary strips.
    """

    __slots__ = ["_after", "_before", "_row", "_table"]

    def __init__(
        self, table: CellTable, row: Sequence[int], before: Sequence[Segment], after: Sequence[Segment], width: int
    ) -> None:
        super().__init__((), width)
        self._table, self._row, self._before, self._after = table, row, before, after
        del self._segments  # from now on `__getattr__` is asked for them

    def __getattr__(self, name: str) -> list[Segment]:
        """Return the segments when they are asked for first."""
        if name != "_segments":
            raise AttributeError(name)
        self._segments = [*self._before, *self._table.segments(self._row), *self._after]
        return self._segments

    def render(self, console: Console) -> str:
        """Return the escape sequences, for the colour system the table was made for."""
        if self._render_cache is None:
            self._render_cache = self._table.ansi(self._row, self._before, self._after)
        return self._render_cache


class CellTable:
    """Every cell that can occur, each `repeat` columns wide, and every way from one to the next."""

    def __init__(self, looks: Sequence[tuple[str, Style]], repeat: int, color_system: ColorSystem) -> None:
        """looks: (glyph, style) per index, at most 256; color_system: of the console that will draw."""
        self.repeat = repeat
        self._system = color_system
        self._looks = looks
        self._segments = [Segment(glyph * repeat, style) for glyph, style in looks]
        self._pens: list[_Pen | None] = [None]  # the first: nothing is known about the terminal's pen
        self._numbers: dict[_Pen, int] = {}
        self._ways: list[_Ways] = [[None] * len(looks)]  # for every pen, how each cell is drawn after it
        self._alike: list[list[tuple[str, _Pen]] | None] = [None] * len(looks)
        self._plain: dict[Segment, str] = {}

    def strip(
        self,
        row: Sequence[int],
        before: Sequence[Segment] = (),
        after: Sequence[Segment] = (),
        width: int | None = None,
    ) -> Strip:
        """Return the strip of a row of indices between two margins. width: columns of it all, if they are known."""
        if width is None:
            width = len(row) * self.repeat + sum(segment.cell_length for segment in (*before, *after))
        return CellStrip(self, row, before, after, width)

    def segments(self, row: Sequence[int]) -> list[Segment]:
        """Return one segment a cell."""
        return [self._segments[cell] for cell in row]

    def ansi(self, row: Sequence[int], before: Sequence[Segment], after: Sequence[Segment]) -> str:
        """Return the escape sequences of a whole row."""
        parts = [self._margin(segment) for segment in before]
        append, ways, number = parts.append, self._ways[0], 0
        for cell in row:
            way = ways[cell] or self._step(ways, number, cell)
            append(way[0])
            ways, number = way[1], way[2]
        parts += [self._margin(segment) for segment in after]
        return "".join(parts) + "\x1b[0m"

    def changes(self, cells: npt.NDArray[np.uint8], where: npt.NDArray[np.bool_], x: int, y: int) -> str:
        """Return the escape sequences that draw some cells of a picture whose first cell is at a place of the terminal.

        cells, where: [rows, columns]; x, y from 0.
        """
        rows, columns = np.nonzero(where)
        parts: list[str] = []
        append, ways, number = parts.append, self._ways[0], 0
        line, follows = -1, 0
        for row, column, cell in zip(rows.tolist(), columns.tolist(), cells[where].tolist(), strict=True):
            if row != line:
                line = row
                append(f"\x1b[{y + row + 1};{x + column * self.repeat + 1}H")
            elif column != follows:
                append(f"\x1b[{(column - follows) * self.repeat}C")
            follows = column + 1
            way = ways[cell] or self._step(ways, number, cell)
            append(way[0])
            ways, number = way[1], way[2]
        return "".join(parts) + "\x1b[0m" if parts else ""

    def beside(self, segments: Sequence[Segment], x: int, y: int) -> str:
        """Return the escape sequences that draw a margin at a place of the terminal, x and y from 0."""
        return "".join((f"\x1b[{y + 1};{x + 1}H", *(self._margin(segment) for segment in segments), "\x1b[0m"))

    def _step(self, ways_on: _Ways, pen: int, cell: int) -> tuple[str, _Ways, int]:
        """Note and return how a cell is drawn shortest after a pen, the ways from there on, and that pen's number."""
        now = self._pens[pen]
        ways = [_draw(now, glyph * self.repeat, target) for glyph, target in self._equals(now, cell)]
        text, then = min(ways, key=lambda way: len(way[0].encode()))
        if then not in self._numbers:
            self._numbers[then] = len(self._pens)
            self._pens.append(then)
            self._ways.append([None] * len(self._looks))
        number = self._numbers[then]
        way = ways_on[cell] = text, self._ways[number], number
        return way

    def _equals(self, now: _Pen | None, cell: int) -> list[tuple[str, _Pen]]:
        """Return the glyphs and pens that look the same as a cell."""
        if (equals := self._alike[cell]) is None:
            equals = self._alike[cell] = self._always_alike(cell)
        glyph, pen = equals[-1]
        if glyph == " " and not pen.other:
            # A space has no ink: that of the last cell will do.
            return [*equals, (" ", pen._replace(ink=now.ink if now else ""))]
        return equals

    def _always_alike(self, cell: int) -> list[tuple[str, _Pen]]:
        """Return those that do not depend on what was drawn before; a space, if it is one, comes last."""
        glyph, style = self._looks[cell]
        pen = self._pen(style)
        if glyph not in _EXCHANGED or not pen.ink or not pen.ground:
            return [(glyph, pen)]
        exchanged = self._pen(Style(color=style.bgcolor, bgcolor=style.color))
        blank = [(" ", pen)] if style.color == style.bgcolor else []
        return [(glyph, pen), (_EXCHANGED[glyph], exchanged), *blank]

    def _pen(self, style: Style) -> _Pen:
        """Return the SGR codes of a style."""
        bare = Style(
            bold=style.bold, dim=style.dim, italic=style.italic, underline=style.underline, reverse=style.reverse
        )
        other = Strip.render_ansi(bare, self._system)
        return _Pen(self._codes(style.color, True), self._codes(style.bgcolor, False), other)

    def _codes(self, colour: Color | None, ink: bool) -> str:
        if colour is None or colour.is_default:
            return ""
        return ";".join(colour.downgrade(self._system).get_ansi_codes(ink))

    def _margin(self, segment: Segment) -> str:
        """Return a segment beside the picture, whatever the pen was before."""
        if (text := self._plain.get(segment)) is None:
            text = self._plain[segment] = _draw(None, segment.text, self._pen(segment.style or Style()))[0]
        return text


def _draw(now: _Pen | None, text: str, then: _Pen) -> tuple[str, _Pen]:
    """Return text with what has to change before it."""
    if now is None or now.other != then.other or (now.ink and not then.ink) or (now.ground and not then.ground):
        codes = ["0", then.other, then.ink, then.ground]
    else:
        codes = [new for old, new in ((now.ink, then.ink), (now.ground, then.ground)) if old != new]
    sequence = ";".join(code for code in codes if code)
    return (f"\x1b[{sequence}m{text}" if sequence else text), then
