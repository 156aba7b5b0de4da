"""Tables as aligned text: as wide as they need to be, wrapped inside their cells when that is too wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.cells import cell_len
from textual.content import Content

from colibri_tui.render.blocks import NO_MARGIN, Margin
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import EMPTY, Row, cells, fit
from colibri_tui.render.wrap import word_cuts

Align = Literal["left", "center", "right"]
_GAP: Final = Content.styled(" │ ", Mark.RULE)
_GAP_WIDTH: Final = 3
MIN_COLUMN: Final = 6
"""Cells below which a column is not wrapped any further: the table becomes a list of records instead."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; all rows have as many cells as the head."""

    head: Sequence[Content]
    body: Sequence[Sequence[Content]]
    aligns: Sequence[Align]
    margin: Margin = NO_MARGIN

    def rows(self, width: int) -> list[Row]:
        """Return the table's rows; each is one display line, unless the table became a list of records."""
        first, rest = fit(self.margin.first, width), fit(self.margin.rest, width)
        room = max(width - max(cells(first), cells(rest)), 1)
        return [
            Row(text, rest if number else first, rest, words=wraps, copied=copied)
            for number, (text, wraps, copied) in enumerate(self._lines(room))
        ]

    def _lines(self, room: int) -> list[tuple[Content, bool, bool]]:
        """Return (text, may be wrapped, is copied) of every line."""
        natural = [max(cell_len(cell.plain) for cell in column) for column in zip(self.head, *self.body, strict=True)]
        widths = column_widths(natural, room - _GAP_WIDTH * (len(natural) - 1))
        if widths is None:
            return [(text, True, True) for text in self._records()]
        rule = Content.styled("─┼─".join("─" * width for width in widths), Mark.RULE)
        rows = [self._row(row, widths) for row in self.body]
        wrapped = any(len(row) > 1 for row in rows)
        lines = [
            (line, False, True) for line in self._row([c.stylize_before(Mark.TABLE_HEAD) for c in self.head], widths)
        ]
        for number, row in enumerate(rows):
            if number == 0 or wrapped:
                lines.append((rule, False, False))
            lines.extend((line, False, True) for line in row)
        return lines if rows else [*lines, (rule, False, False)]

    def _row(self, row: Sequence[Content], widths: Sequence[int]) -> list[Content]:
        """Return the display lines of one row of cells."""
        columns = [_cell_lines(cell, width) for cell, width in zip(row, widths, strict=True)]
        height = max(len(column) for column in columns)
        lines: list[Content] = []
        for y in range(height):
            parts: list[Content] = []
            for column, width, align in zip(columns, widths, self.aligns, strict=True):
                parts.append(_aligned(column[y] if y < len(column) else EMPTY, width, align))
            lines.append(_GAP.join(parts).rstrip())
        return lines

    def _records(self) -> list[Content]:
        """Return the table as "column: value" lines, for terminals too narrow for its columns."""
        names = [name.stylize_before(Mark.TABLE_HEAD) for name in self.head]
        if not self.body:
            return names
        lines: list[Content] = []
        for number, row in enumerate(self.body):
            if number:
                lines.append(EMPTY)
            lines.extend(Content.assemble(name, ": ", cell) for name, cell in zip(names, row, strict=True))
        return lines


def column_widths(natural: Sequence[int], room: int) -> list[int] | None:
    """Return widths that fit into `room` cells: natural if possible, else the widest columns give way.

    None if too narrow.
    """
    widths = [max(width, 1) for width in natural]
    if sum(widths) <= room:
        return widths
    floor = [min(width, MIN_COLUMN) for width in widths]
    if sum(floor) > room:
        return None
    low, high = 1, max(widths)
    while low < high:  # the largest cap under which everything fits
        cap = (low + high + 1) // 2
        if sum(max(min(width, cap), least) for width, least in zip(widths, floor, strict=True)) <= room:
            low = cap
        else:
            high = cap - 1
    capped = [max(min(width, low), least) for width, least in zip(widths, floor, strict=True)]
    spare = room - sum(capped)
    for index, width in enumerate(widths):
        if spare and capped[index] < width:
            capped[index] += 1
            spare -= 1
    return capped


def _cell_lines(cell: Content, width: int) -> list[Content]:
    cuts = word_cuts(cell.plain, width)
    return [part.rstrip() for part in cell.divide(cuts)] if cuts else [cell]


def _aligned(cell: Content, width: int, align: Align) -> Content:
    spare = max(width - cell_len(cell.plain), 0)
    left = {"left": 0, "center": spare // 2, "right": spare}[align]
    return cell.pad(left, spare - left) if spare else cell
