"""The cursor of the atlas: which expert it is on, and how keys and the mouse move it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from colibri_tui.bindings import bind
from colibri_tui.render.grid import Grid
from colibri_tui.telemetry import Sample

PAGE = 8
"""Layers that a page key moves the cursor by."""


class AtlasCursor(Widget):
    """What the atlas is derived from. It draws; here is decided where the cursor goes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("atlas_left", "move(0, -1)", show=False),
        bind("atlas_right", "move(0, 1)", show=False),
        bind("atlas_up", "move(-1, 0)", show=False),
        bind("atlas_down", "move(1, 0)", show=False),
        bind("atlas_page_up", f"move(-{PAGE}, 0)", show=False),
        bind("atlas_page_down", f"move({PAGE}, 0)", show=False),
        bind("atlas_home", "move(0, -9999)", show=False),
        bind("atlas_end", "move(0, 9999)", show=False),
        bind("atlas_choose", "choose"),
        bind("atlas_leave", "leave", show=False),
    ]

    class Pointed(Message):
        """The cursor is on another expert, or on none (None). layer: index into the layers shown."""

        def __init__(self, cursor: tuple[int, int] | None, *, chosen: bool = False) -> None:
            super().__init__()
            self.cursor, self.chosen = cursor, chosen

    _sample: Sample | None = None
    _order: npt.NDArray[np.intp] | None = None
    _grid: Grid | None = None
    _cursor: tuple[int, int] | None = None  # layer (index), expert

    def _update(self) -> None:
        """Draw what changed."""
        raise NotImplementedError

    def _cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        """Return (row, column of pieces) of the picture at a place of the widget, None beside it."""
        raise NotImplementedError

    @property
    def _positions(self) -> npt.NDArray[np.intp] | None:
        """The order [layers, experts] in which experts are drawn, None for that of their numbers."""
        raise NotImplementedError

    @property
    def cursor(self) -> tuple[int, int] | None:
        """The expert under the cursor: layer (index into the layers shown), expert."""
        return self._cursor

    def point(self, cursor: tuple[int, int] | None, *, chosen: bool = False) -> None:
        """Put the cursor on an expert, and say so."""
        self._cursor = cursor
        self._update()
        self.post_message(self.Pointed(cursor, chosen=chosen))

    def action_move(self, layers: int, experts: int) -> None:
        """Move the cursor; the first move puts it where the picture begins."""
        sample = self._sample
        if sample is None or not sample.heat.size:
            return
        if self._cursor is None:
            self.point((0, self._expert_at(0, 0)))
            return
        layer, expert = self._cursor
        position = min(max(self._position(layer, expert) + experts, 0), sample.heat.shape[1] - 1)
        layer = min(max(layer + layers, 0), len(sample.layers) - 1)
        self.point((layer, self._expert_at(layer, position)))

    def action_choose(self) -> None:
        """Ask for all about the expert under the cursor."""
        if self._cursor is None:
            self.action_move(0, 0)
        self.point(self._cursor, chosen=True)

    def action_leave(self) -> None:
        """Take the cursor away."""
        self.point(None)

    def on_click(self, event: Click) -> None:
        """Put the cursor where the mouse is; two clicks ask for all about it."""
        cell = self._cell_at(event.x, event.y)
        if cell is not None and self._grid is not None:
            layer, position = self._grid.at(*cell)
            self.point((layer, self._expert_at(layer, position)), chosen=event.chain > 1)

    def _position(self, layer: int, expert: int) -> int:
        """Where an expert stands in its layer as drawn."""
        order = self._positions
        return expert if order is None else int(np.flatnonzero(order[layer] == expert)[0])

    def _expert_at(self, layer: int, position: int) -> int:
        order = self._positions
        return position if order is None else int(order[layer, position])

    def _cursor_cell(self) -> tuple[int, int] | None:
        """Return row and column of the cursor."""
        if self._cursor is None or self._grid is None:
            return None
        layer, expert = self._cursor
        return self._grid.cell_of(layer, self._position(layer, expert))
