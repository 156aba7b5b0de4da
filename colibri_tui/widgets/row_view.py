"""A widget that draws blocks of text: wrapped lines, styles by name, selection by source text.

It paints finished strips itself and has neither border nor padding, so that a line that did not change costs
nothing when the screen scrolls. A narrow gutter on the left is part of every line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.content import Content
from textual.css.styles import RenderStyles
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import EMPTY, Block, Layout, Line, Parts, Row

GUTTER: Final = 2
"""Cells on the left: the prompt mark on a question's first line, otherwise empty."""
_RIGHT: Final = 1
"""Cells on the right that stay free."""
_CURSOR: Final = "▌"
_CHOSEN: Final = "▌ "
_MAX_STRIPS: Final = 2_000
"""Painted lines that are kept (about 2 KB each); a very long message is painted again where the reader is."""


class Match(NamedTuple):
    """A place where the words that are looked for stand: row, and from where to where in its text."""

    row: int
    start: int
    stop: int


class RowView(Widget):
    """The lines of some blocks. Subclasses say which blocks, and what the source of all of it is."""

    DEFAULT_CSS = "RowView { height: auto; width: 1fr; }"

    def __init__(self, gutter: Parts = ()) -> None:
        super().__init__()
        self.blocks: Sequence[Block] = ()
        self._gutter = gutter
        self._cursor = False
        self._chosen = False
        self._words: re.Pattern[str] | None = None
        self._here: Match | None = None
        self._layout: Layout | None = None
        self._strips: dict[int, Strip] = {}
        self._styles_by_name: dict[str, Style] = {}

    # What is shown

    @property
    def source(self) -> str:
        """What a copy of the whole widget yields."""
        return "\n".join(row.lead + row.text.plain for row in self._laid_out.rows if row.copied)

    @property
    def lines(self) -> Sequence[Line]:
        """The display lines at the present width."""
        return self._laid_out.lines

    def show_blocks(self, blocks: Sequence[Block], first: int = 0, *, cursor: bool = False) -> None:
        """Show other blocks, of which those before number `first` are the same as until now.

        cursor: whether a block cursor stands behind the last line.
        """
        self.blocks = blocks
        layout = self._layout
        if layout is None:
            self._cursor = cursor
            self.refresh(layout=True)
            return
        before = len(layout.lines)
        changed = layout.update(blocks, first)
        if self._cursor or cursor:
            changed = min(changed, max(before - 1, 0))
        self._cursor = cursor
        for number in range(changed, before):
            self._strips.pop(number, None)
        if len(layout.lines) != before:
            self.refresh(layout=True)
        elif changed < before:
            self.refresh(Region(0, changed, self.size.width, before - changed))

    def paint_ahead(self, count: int) -> None:
        """Paint the last lines now, for callers who want to know what it costs; the next frame uses them."""
        if self._layout is not None:
            total = len(self._layout.lines)
            for y in range(max(total - count, 0), total):
                if y not in self._strips:
                    self._strips[y] = self._paint(y)

    # What is marked

    @property
    def chosen(self) -> bool:
        """Whether this is the message that the next command is about: a bar at the left says so."""
        return self._chosen

    @chosen.setter
    def chosen(self, chosen: bool) -> None:
        self._chosen = chosen
        self._strips.clear()
        self.refresh()

    def find(self, words: re.Pattern[str] | None, here: Match | None = None) -> None:
        """Mark every place with these words from now on, the one that is `here` more than the others."""
        if words is not None or self._words is not None:
            self._words, self._here = words, here
            self._strips.clear()
            self.refresh()

    def matches(self, words: re.Pattern[str]) -> list[Match]:
        """Return every place with these words."""
        return [
            Match(number, match.start(), match.end())
            for number, row in enumerate(self._laid_out.rows)
            for match in words.finditer(row.text.plain)
        ]

    # Places in the text, which outlive a change of width

    def place_of(self, line: int) -> tuple[int, int]:
        """Return (row, offset in the row) of what a display line begins with."""
        lines = self.lines
        if not lines:
            return 0, 0
        found = lines[min(line, len(lines) - 1)]
        return found.number, found.start

    def line_of(self, place: tuple[int, int]) -> int:
        """Return the display line on which a place is now."""
        return self._laid_out.line_of(*place)

    def row_at(self, line: int) -> Row | None:
        """Return the row that a display line belongs to."""
        return self.lines[line].row if 0 <= line < len(self.lines) else None

    # Size

    @property
    def _laid_out(self) -> Layout:
        return self._layout or self._lay_out(self.size.width)

    def _lay_out(self, width: int) -> Layout:
        """Return the layout for a widget of `width` cells."""
        room = max(width - GUTTER - _RIGHT, 1)
        layout = self._layout
        if layout is None or layout.width != room:
            layout = Layout(room)
            layout.update(self.blocks)
            self._layout = layout
            self._strips.clear()
        return layout

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Take all the width there is."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines at that width."""
        return len(self._lay_out(width).lines) if width else 0

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """Take a new size without asking for another layout, as Textual does for whatever was resized.

        Nothing depends on the size of a row view but itself. A private hook: should it go away, every new row merely
        costs two layouts instead of one.
        """
        return super()._size_updated(size, virtual_size, container_size, layout=False)

    # Painting

    def notify_style_update(self) -> None:
        """Forget strips whose colours may be wrong now."""
        super().notify_style_update()
        self._styles_by_name.clear()
        self._strips.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection anew."""
        self._strips.clear()
        super().selection_updated(selection)

    def render(self) -> str:
        """Return nothing: lines are painted by `render_lines`."""
        return ""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the strips of the lines in `crop`, from the store where they did not change."""
        width = self.size.width
        self._lay_out(width)
        if len(self._strips) > _MAX_STRIPS:
            self._strips.clear()
        background = self.background_colors[1]
        filters = self.get_line_filters()
        strips: list[Strip] = []
        for y in crop.line_range:
            strip = self._strips.get(y)
            if strip is None:
                strip = self._strips[y] = self._paint(y)
            for line_filter in filters:
                strip = strip.apply_filter(line_filter, background)
            strips.append(strip)
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """Return a line whose segments know their place in the text.

        The screen asks for it to select with the mouse.
        """
        return self._paint(y, places=True)

    def _paint(self, y: int, *, places: bool = False) -> Strip:
        lines = self.lines
        base = self.visual_style
        width = self.size.width
        if y >= len(lines):
            return Strip.blank(width, base.rich_style)
        line = lines[y]
        row = line.row
        fill = base + self._style(row.style) if row.style else base
        decoration = row.first if line.start == 0 else row.rest
        gutter = self._gutter if y == 0 and self._gutter else ((" " * GUTTER, ""),)
        if self._chosen:
            gutter = ((_CHOSEN, Mark.CHOSEN),)
        segments: list[Segment] = []
        for text, name in (*gutter, *decoration):
            style = (base + self._style(name) if name else base).rich_style
            if places:  # one cell each, so that all of them mean the beginning of the text
                here = style + RichStyle.from_meta({"offset": (line.start, line.number)})
                segments.extend(Segment(character, here) for character in text)
            else:
                segments.append(Segment(text, style))
        offset = line.start
        for text, text_style in self._content(line).render(fill, end="", parse_style=self._style):
            if not text:
                continue
            painted = text_style.rich_style
            if places:
                painted += RichStyle.from_meta({"offset": (offset, line.number)})
                offset += len(text)
            segments.append(Segment(text, painted))
        used = sum(cell_len(segment.text) for segment in segments)
        if self._cursor and y == len(lines) - 1 and used < width:
            segments.append(Segment(_CURSOR, (fill + self._style(Mark.CURSOR)).rich_style))
            used += 1
        right = width - _RIGHT
        if used < right:
            segments.append(Segment(" " * (right - used), fill.rich_style))
            used = right
        return Strip(segments, used).adjust_cell_length(width, base.rich_style)

    def _content(self, line: Line) -> Content:
        """Return the text of a display line, with the selection drawn on it."""
        text = line.row.painted
        if self._words is not None:
            for match in self._words.finditer(text.plain):
                here = self._here == (line.number, match.start(), match.end())
                mark = Mark.FOUND_HERE if here else Mark.FOUND
                text = text.stylize(self._style(mark), match.start(), match.end())
        selection = self.text_selection if self.is_attached else None  # it may be on its way out
        if selection is not None and (span := selection.get_span(line.number)) is not None:
            start, stop = max(span[0], 0), span[1]
            style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            text = text.stylize(style, start, len(text) if stop == -1 else min(stop, len(text)))
        if line.start == 0 and line.stop == len(text):
            return text
        part = text[line.start : line.stop] if line.stop > line.start else EMPTY
        return part if line.stop == len(text) else part.rstrip(" ")

    def _style(self, name: str | Style) -> Style:
        """Return the style that the nearest ancestor with that component class gives it."""
        if isinstance(name, Style):
            return name
        style = self._styles_by_name.get(name)
        if style is None:
            style = self._styles_by_name[name] = self._find_style(name)
        return style

    def _find_style(self, name: str) -> Style:
        for node in self.ancestors:
            if isinstance(node, Widget) and name in node.COMPONENT_CLASSES:
                return component_style(node.get_component_styles(name))
        return Style.null()

    # Selection

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it was written: no padding, no decoration, no line breaks that wrapping made."""
        if selection.start is None and selection.end is None:
            return self.source, "\n\n"
        parts: list[str] = []
        for index, row in enumerate(self._laid_out.rows):
            span = selection.get_span(index)
            if span is None or not row.copied:
                continue
            text = row.text.plain
            start, stop = max(span[0], 0), len(text) if span[1] == -1 else span[1]
            parts.append((row.lead if start == 0 else "") + text[start:stop])
        return "\n".join(parts), "\n"


def component_style(styles: RenderStyles) -> Style:
    """Return a component's rules as a style that is laid over another: what has no rule is left as it is below.

    `Widget.get_visual_style(partial=True)` drops opaque backgrounds, and takes the contrast of "auto" colours to black.
    """
    text = styles.text_style
    colour = styles.color
    return Style(
        background=styles.background if styles.has_rule("background") else None,
        foreground=(Color(0, 0, 0, colour.a, auto=True) if styles.auto_color else colour)
        if styles.has_rule("color")
        else None,
        bold=text.bold,
        dim=text.dim,
        italic=text.italic,
        underline=text.underline,
        reverse=text.reverse,
        strike=text.strike,
    )
