"""Rows: lines of text before wrapping, with the decoration that containers put in front of them.

A row keeps what can be selected and copied (`text`) apart from what is only drawn (bullets, quote bars,
padding), so that a copy never contains decoration. `Layout` wraps the rows of many blocks to a width and,
while an answer grows, wraps again only what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from rich.cells import cell_len
from textual.content import Content

from colibri_tui.render.wrap import fold_cuts, shorten, word_cuts

Parts = tuple[tuple[str, str], ...]
"""Decoration: (text, style name) from left to right."""

EMPTY = Content()

_LONG: Final = 1_000
"""Characters from which on it is worth the trouble not to wrap a row from its beginning."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the source, or a line that is only drawn.

    text: what is selected and copied; no newline in it.
    first, rest: decoration before the first and before every further display line.
    lead: what a copy of the row from its start puts before the text ("- ", "> ", "```python").
    style: name of the style of the whole display line, "" for none.
    words: break between words; otherwise anywhere (code).
    copied: False for lines that are only drawn (table rules).
    code: the code that a click on this row copies, None where there is none.
    colour: returns `text` with its colours, for text that is expensive to colour and may never be seen.
    """

    text: Content = EMPTY
    first: Parts = ()
    rest: Parts = ()
    lead: str = ""
    style: str = ""
    words: bool = True
    copied: bool = True
    code: str | None = None
    colour: Callable[[], Content] | None = None

    @property
    def painted(self) -> Content:
        """The text as it is drawn."""
        return self.text if self.colour is None else self.colour()


class Block(Protocol):
    """A leaf of a document: a paragraph, a table, a piece of code, a gap."""

    def rows(self, width: int) -> list[Row]:
        """Return the block's rows, for lines of `width` cells."""


class Line(NamedTuple):
    """One display line: `row.text[start:stop]` behind the row's decoration."""

    row: Row
    number: int  # of the row in the layout
    start: int
    stop: int


def cells(parts: Parts) -> int:
    """Return the width of decoration in terminal cells."""
    return sum(cell_len(text) for text, _style in parts)


def fit(parts: Parts, width: int) -> Parts:
    """Cut decoration so that it leaves at least half of `width` to the text."""
    room = max(width // 2, 0)
    if cells(parts) <= room:
        return parts
    kept: list[tuple[str, str]] = []
    for text, style in parts:
        part = shorten(text, room)
        if not part:
            break
        kept.append((part, style))
        room -= cell_len(part)
    return tuple(kept)


def wrap(row: Row, number: int, width: int, before: Sequence[Line] = ()) -> list[Line]:
    """Return the display lines of a row.

    before: the lines of the row that stood in its place at this width. A long paragraph that grew, or changed at its
    end, is wrapped from there on only.
    """
    text = row.text.plain
    first = cells(row.first)
    cut = word_cuts if row.words else fold_cuts
    kept = _still_valid(row, before)
    if not kept and not cut(text, max(width - first, 1)):
        return [Line(row, number, 0, len(text))]
    cuts = cut(text[kept[-1] if kept else 0 :], max(width - max(first, cells(row.rest)), 1))
    bounds = [0, *kept, *(cut + (kept[-1] if kept else 0) for cut in cuts), len(text)]
    return [Line(row, number, start, stop) for start, stop in pairwise(bounds)]


def _still_valid(row: Row, before: Sequence[Line]) -> list[int]:
    """Return where the lines before were cut, as far as the row is cut there as well.

    A cut depends on the words next to it. So it stands if the whole line after it did not change, nor what it ends
    before, nor was it the last one.
    """
    if len(before) < 3:
        return []
    old = before[0].row
    if (old.first, old.rest, old.words) != (row.first, row.rest, row.words):
        return []
    common = common_length(old.text.plain, row.text.plain)
    return [line.stop for line, after in pairwise(before[:-1]) if after.stop < common]


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts begin with together."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # bisect, so that the interpreter's own comparison does the work
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Layout:
    """The display lines of a list of blocks at one width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[Row] = []
        self.lines: list[Line] = []
        self._starts: list[tuple[int, int]] = []  # (rows, lines) before each block

    def update(self, blocks: Sequence[Block], first: int = 0) -> int:
        """Lay out the blocks from number `first` on, which changed; return the first line that is different.

        Blocks before `first` must be those of the last call.
        """
        first = min(first, len(self._starts))
        old = self.lines
        if first < len(self._starts):
            row_count, line_count = self._starts[first]
        else:
            row_count, line_count = len(self.rows), len(self.lines)
        del self._starts[first:], self.rows[row_count:]
        self.lines = lines = old[:line_count]
        replaced = old[line_count:]
        for block in blocks[first:]:
            self._starts.append((len(self.rows), len(lines)))
            for row in block.rows(self.width):
                number = len(self.rows)
                long = len(row.text.plain) > _LONG
                before = [line for line in replaced if line.number == number] if long else ()
                lines.extend(wrap(row, number, self.width, before))
                self.rows.append(row)
        return line_count + _same_lines(replaced, lines[line_count:])

    def line_of(self, row: int, offset: int) -> int:
        """Return the number of the line that shows a row's character; the nearest one if there is none."""
        low, high = 0, len(self.lines)
        while low < high:  # bisect: lines are sorted by (row, start)
            middle = (low + high) // 2
            line = self.lines[middle]
            if (line.number, line.start) <= (row, offset):
                low = middle + 1
            else:
                high = middle
        return max(low - 1, 0)


def _same_lines(before: Sequence[Line], after: Sequence[Line]) -> int:
    """Return how many lines at the beginning look the same."""
    same = 0
    rows: tuple[Row, Row] | None = None
    alike = 0
    for one, other in zip(before, after, strict=False):
        if one[1:] != other[1:]:
            break
        if one.row is not other.row:
            if rows is None or rows[0] is not one.row or rows[1] is not other.row:
                rows, alike = (one.row, other.row), _alike(one.row, other.row)
            if one.stop > alike:
                break
        same += 1
    return same


def _alike(one: Row, other: Row) -> int:
    """Return up to which character two rows look the same, -1 if not even what is in front of them does."""
    if (one.first, one.rest, one.style, one.colour, other.colour) != (other.first, other.rest, other.style, None, None):
        return -1
    alike = common_length(one.text.plain, other.text.plain)
    spans, others = one.text.spans, other.text.spans
    count = next(
        (n for n, (a, b) in enumerate(zip(spans, others, strict=False)) if a != b), min(len(spans), len(others))
    )
    return min([alike, *(span.start for span in (*spans[count:], *others[count:]))])
