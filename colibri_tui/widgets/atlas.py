"""Every expert of every layer, live: how often it was chosen, where it lies, and which ones fire now.

The widget draws from prebuilt tables (`render.halfblock`). Cells that changed are written over the last picture where
that can be done; else the rows they are in are repainted. It has no border or padding, so that its strips reach the
terminal uncut.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip

from colibri_tui.bindings import bind
from colibri_tui.render.grid import Grid, rank_order
from colibri_tui.render.halfblock import CellTable
from colibri_tui.render.looks import Looks
from colibri_tui.render.picture import (
    Frame,
    caption,
    draw,
    fit,
    has_hits,
    label_width,
    legend,
    swatch_index,
)
from colibri_tui.render.shades import Place, View
from colibri_tui.telemetry import Sample
from colibri_tui.widgets.atlas_cursor import AtlasCursor
from colibri_tui.widgets.overwrite import overwrite, place_of

LABELS_FROM = 24
"""Layer numbers stand at the left edge from this many columns on."""
SHARES_FROM = 40
"""So does the in-memory share of each layer at the right."""
MUTED = 0.6
"""How much of the text colour words beside the picture keep."""
SHARE_HEADING, HITS_HEADING = "in memory", "hits"
SHARE = 5
"""Columns of a share, the space before it included."""
HIT_BARS_FROM = 52
"""From this many columns on a coarse map leaves room for hit bars beside the shares; others have what is left over."""
HIT_BAR = 6
"""A hit bar has at least so many columns."""
FRAMED_FROM = 6
"""Caption and legend lines exist from this many rows on."""


class Atlas(AtlasCursor, can_focus=True):
    """The expert map. Feed it with `show`; `looks` may change at any time."""

    ALLOW_SELECT = False
    FOCUS_ON_CLICK = False  # who points at a cell and writes on must not steer the map with letters
    BINDING_GROUP_TITLE = "Atlas"
    HELP = """
    A line is a layer, a cell is an expert, or a few of either when the model is larger than the window.

    - **t**: how often experts were chosen (heat), or where they lie (tiers)
    - **o**: experts by number, or the most used first; that order is renewed after each answer
    - experts of the current token light up
    - **arrows** or **h j k l**, a click: choose an expert; **Enter** tells all about it, **c** takes the cursor away
    - *hits*: the share of a layer's look-ups in this answer that needed no read
    - *in memory*, before there are any: the share of a layer's uses, history included, whose expert is in memory now
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("atlas_view", "view"),
        bind("atlas_order", "order"),
    ]
    DEFAULT_CSS = "Atlas { width: 1fr; height: 1fr; }"

    view: reactive[View] = reactive(View.HEAT, init=False)
    ranked: reactive[bool] = reactive(False, init=False)

    def __init__(self, looks: Looks, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._looks = looks
        self._table: CellTable | None = None
        self._frame: Frame | None = None
        self._marked: int | None = None  # the row that shows it
        self._note = ""
        self._words = Style()
        self._left: list[list[Segment]] = []
        self._right: list[list[Segment]] = []
        self._space = self._bar = 0
        self._top = 0
        self._laid_out = Size()
        self._strips: list[Strip] = []

    @property
    def looks(self) -> Looks:
        """Colours, glyphs and depth."""
        return self._looks

    @looks.setter
    def looks(self, looks: Looks) -> None:
        self._looks = looks
        self._rebuild()

    def show(self, sample: Sample, *, settled: bool = False) -> None:
        """Draw a sample. settled: a turn has ended, so ranks may be sorted anew without cells jumping."""
        before, self._sample = self._sample, sample
        same = (
            before is not None
            and before.layers == sample.layers
            and before.heat.shape == sample.heat.shape
            and has_hits(before) == has_hits(sample)
        )
        if settled or not same:
            self._order = None
        if same:
            self._update()
            if settled:  # should anything else have written on the terminal meanwhile
                self.refresh()
        else:
            self._rebuild()

    @property
    def note(self) -> str:
        """Words that stand before the caption, such as whose way is shown."""
        return self._note

    @note.setter
    def note(self, note: str) -> None:
        if note != self._note:
            self._note = note
            self._rebuild()

    def clear(self) -> None:
        """Forget the model."""
        self._sample = self._order = self._cursor = None
        self._rebuild()

    def action_view(self) -> None:
        """Switch between heat and tiers."""
        self.view = View.TIER if self.view is View.HEAT else View.HEAT

    def action_order(self) -> None:
        """Switch between the order of expert numbers and that of use."""
        self.ranked = not self.ranked

    def watch_view(self) -> None:
        """Cells, caption and legend mean something else now."""
        self._rebuild()

    def watch_ranked(self) -> None:
        """Sort now: it was asked for."""
        self._order = None
        self._rebuild()

    def on_resize(self) -> None:
        """Lay out anew."""
        self._rebuild()

    def notify_style_update(self) -> None:
        """The ground colour comes from the style sheet."""
        super().notify_style_update()
        if self.is_attached:
            self._rebuild()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Hand out the prepared strips, cut only when the widget is not wholly visible."""
        width = self.size.width
        missing = crop.bottom - len(self._strips)
        blank = [Strip.blank(width, self.visual_style.rich_style)] * max(0, missing)
        strips = [*self._strips, *blank][crop.y : crop.bottom]
        if crop.x == 0 and crop.width == width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]

    def _rebuild(self) -> None:
        """Compute layout, tables and every row; repaint all."""
        width, height = self._laid_out = self.size
        self._grid = self._table = self._frame = self._marked = None
        self._words = self._muted()
        self._top = 1 if height >= FRAMED_FROM else 0
        self._strips = []
        self._bar_looks = self._make_bar_looks()
        sample = self._sample
        if sample is not None:
            self._bar = 0
            room = width - self._labels(sample) - self._shares()
            grid = fit(sample, self._looks, room, height - 2 * self._top)
            if grid is not None and grid.columns < grid.experts and width >= HIT_BARS_FROM:
                grid = fit(sample, self._looks, room - HIT_BAR - 1, height - 2 * self._top)
            if grid is not None and self._shares() and (spare := room - grid.width - 1) >= HIT_BAR:
                self._bar = spare
            self._grid = grid
        if self._grid is not None and sample is not None:
            ground = self.background_colors[1].rich_color
            cells = self._looks.cells(self.view, ground, half=self._grid.half)
            self._table = CellTable(cells, self._grid.repeat, self._looks.color_system)
            self._left = self._left_of(self._grid, sample)
            self._right = [[]] * self._grid.rows
            self._space = width - self._labels(sample) - self._grid.width
            self._strips = [Strip.blank(width, self._words)] * height
            if self._top:
                self._strips[0] = self._line(self._caption(self._grid))
                self._strips[self._grid.rows + 1] = self._line(self._legend(self._grid))
            self._update()
        self.refresh()

    def _update(self) -> None:
        """Compute the frame; rebuild and repaint the rows that changed."""
        if self._grid is None or self._table is None or self._sample is None:
            return
        if self.ranked and self._order is None:
            self._order = rank_order(self._sample.heat)
        before, frame = self._frame, self._picture(self._sample, self._grid, self._bar)
        self._frame = frame
        if before is None:
            cells, margins = np.ones(frame.cells.shape, np.bool_), np.ones(len(frame.cells), np.bool_)
        else:
            cells, margins = frame.changed_cells(before), frame.changed_margins(before)
        cell = self._cursor_cell()
        marked = cell[0] if cell else None
        special = {row for row in (self._marked, marked) if row is not None}
        self._marked = marked
        plain = sorted({*np.flatnonzero(cells.any(axis=1) | margins).tolist()} - special)
        for row in np.flatnonzero(margins).tolist():
            self._right[row] = self._right_of(row, frame)
        for row in plain:
            self._strips[self._top + row] = self._table.strip(
                frame.cells[row].tobytes(), self._left[row], self._right[row], self._laid_out.width
            )
        for row in special:
            column = cell[1] if cell is not None and row == marked else None
            self._strips[self._top + row] = self._with_cursor(frame.cells[row].tobytes(), column, row)
        if before is not None and plain and self._overwrite(frame, cells, margins, special):
            plain = []
        if rows := sorted({*plain, *special}):
            self.refresh(*self._regions(rows))

    def _overwrite(
        self, frame: Frame, cells: npt.NDArray[np.bool_], margins: npt.NDArray[np.bool_], special: set[int]
    ) -> bool:
        """Write what changed over the picture on the terminal, but for special rows; return whether that was done."""
        assert self._table is not None
        assert self._grid is not None
        assert self._sample is not None
        if (at := place_of(self, self._laid_out)) is None:
            return False
        cells[list(special)] = margins[list(special)] = False
        left, top = at.x + self._labels(self._sample), at.y + self._top
        texts = [self._table.changes(frame.cells, cells, left, top)]
        right = left + self._grid.width
        texts += [self._table.beside(self._right[row], right, top + row) for row in np.flatnonzero(margins).tolist()]
        overwrite(self, "".join(texts))
        return True

    def _with_cursor(self, cells: bytes, column: int | None, row: int) -> Strip:
        """Return a row with the cursor in a column, as an ordinary strip; without one if it has just left the row."""
        assert self._table is not None
        left, right = self._left[row], self._right[row]
        if column is None:
            return self._table.strip(cells, left, right)
        repeat = self._table.repeat
        mark = "X" if repeat == 1 else f"[{' ' * (repeat - 2)}]"
        _, _, ground, ink = self.colors
        plain = not self._looks.depth.paints
        style = Style(reverse=True, bold=True) if plain else Style.from_color(ground.rich_color, ink.rich_color)
        before = self._table.strip(cells[:column], left)
        after = self._table.strip(cells[column + 1 :], (), right)
        return Strip([*before, Segment(mark, style), *after])

    def _picture(self, sample: Sample, grid: Grid, bar: int) -> Frame:
        """Return the frame of a sample."""
        return draw(sample, grid, self.view, self._positions, bar)

    @property
    def _positions(self) -> npt.NDArray[np.intp] | None:
        return self._order if self.ranked else None

    def _cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        grid, sample = self._grid, self._sample
        if grid is None or sample is None:
            return None
        row, column = y - self._top, (x - self._labels(sample)) // grid.repeat
        return (row, column) if 0 <= row < grid.rows and 0 <= column < grid.columns else None

    def _regions(self, rows: Iterable[int]) -> list[Region]:
        """Return whole-width regions of neighbouring rows: smaller ones make Textual send more, not less."""
        runs = groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0])
        regions = []
        for _, run in runs:
            lines = [row for _, row in run]
            regions.append(Region(0, self._top + lines[0], self.size.width, len(lines)))
        return regions

    # Words

    def _labels(self, sample: Sample) -> int:
        return label_width(sample) if self.size.width >= LABELS_FROM and self.size.height > 1 else 0

    def _shares(self) -> int:
        """Return the columns of shares and hit bars."""
        return SHARE + self._bar + (self._bar > 0) if self.size.width >= SHARES_FROM else 0

    def _muted(self) -> Style:
        """Return the style of words beside the picture."""
        if not self._looks.depth.paints:
            return Style(dim=True)
        _, _, ground, ink = self.colors
        return Style.from_color(ground.blend(ink, MUTED).rich_color, ground.rich_color)

    def _left_of(self, grid: Grid, sample: Sample) -> list[list[Segment]]:
        """Return what stands left of every row: its layer's number, where that is a new one."""
        labels = self._labels(sample)
        if not labels:
            return [[]] * grid.rows
        texts = [str(sample.layers[grid.layers_of_row(row).start]) for row in range(grid.rows)]
        return [
            [Segment(("" if row % grid.stretch else text).rjust(labels - 1) + " ", self._words)]
            for row, text in enumerate(texts)
        ]

    def _right_of(self, row: int, frame: Frame) -> list[Segment]:
        """Return what stands right of a row: its hit bar, a share, and empty space."""
        assert self._grid is not None
        shares, share = self._shares(), int(frame.shares[row])
        if not shares or share < 0 or row % self._grid.stretch:
            return [Segment(" " * self._space, self._words)] if self._space else []
        bar = [
            Segment(glyph * int(count), style)
            for count, (glyph, style) in zip(frame.bars[row], self._bar_looks, strict=True)
            if count
        ]
        gap = shares - SHARE - int(frame.bars[row].sum())
        text = f"{share}%".rjust(self._space - shares + SHARE)
        return (
            [Segment(" " * gap, self._words), *bar, Segment(text, self._words)]
            if gap
            else [*bar, Segment(text, self._words)]
        )

    def _make_bar_looks(self) -> list[tuple[str, Style]]:
        """Return glyph and style of pinned, cached and on disk in the hit bars."""
        ground = self.background_colors[1].rich_color
        looks = []
        for place in (Place.PIN, Place.CACHE, Place.DISK):
            glyph, colour = self._looks.bar(place)
            if self._looks.depth.paints and not colour.startswith("$"):
                ink = self._looks.palette.of(View.TIER)[place].at(self._looks.depth)
                looks.append((glyph, Style(color=ink, bgcolor=ground)))
            elif colour.startswith("ansi_"):
                looks.append((glyph, Style(color=colour.removeprefix("ansi_"))))
            else:
                looks.append((glyph, self._words))
        return looks

    def _caption(self, grid: Grid) -> list[Segment]:
        """Return the line above the picture, with a heading over the shares."""
        indent = self._labels(self._sample) if self._sample else 0
        edge = self.size.width
        hits = self._sample is not None and has_hits(self._sample)
        heading = (HITS_HEADING if hits else SHARE_HEADING) if self._shares() else ""
        note = f"{self._note} {self._looks.glyphs.dot} " if self._note else ""
        room = edge - indent - len(heading) - 2 - cell_len(note)
        words = " " * indent + note
        words += caption(grid, self.view, max(room, 0), ranked=self.ranked, dot=self._looks.glyphs.dot)
        gap = max(edge - cell_len(words) - len(heading), 2)
        return [Segment(words + " " * gap + heading, self._words)]

    def _legend(self, grid: Grid) -> list[Segment]:
        """Return the line below the picture: what the shades mean."""
        cells = self._looks.cells(self.view, self.background_colors[1].rich_color, half=grid.half)
        segments = [Segment(" " * (self._labels(self._sample) if self._sample else 0), self._words)]
        for swatch in legend(self.view):
            segments += [Segment(*cells[swatch_index(shade, grid)]) for shade in swatch.shades]
            segments.append(Segment(f" {swatch.words}  " if swatch.shades else f"{swatch.words} ", self._words))
        return segments

    def _line(self, segments: list[Segment]) -> Strip:
        return Strip(segments).adjust_cell_length(self.size.width, self._words)
