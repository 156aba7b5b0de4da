"""Two profiles as a map of differences: which experts each uses more than the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from colibri_tui.bindings import bind
from colibri_tui.experts_known import HOT_SHARE, ranks_of, read_counts
from colibri_tui.profiles import usage_path
from colibri_tui.render import grid as g
from colibri_tui.render.clean import clean
from colibri_tui.render.grid import Grid
from colibri_tui.render.looks import Looks
from colibri_tui.render.picture import Frame
from colibri_tui.render.shades import View
from colibri_tui.telemetry import Sample
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.keys_footer import KeysFooter
from engine.errors import EngineError

Uses = npt.NDArray[np.uint32]


class DifferenceMap(Atlas):
    """An atlas of two histories, `a` and `b` [layers, experts], in place of a sample's."""

    a: Uses
    b: Uses

    def _picture(self, sample: Sample, grid: Grid, bar: int) -> Frame:
        order = self._positions
        a, b = (uses if order is None else np.take_along_axis(uses, order, axis=1) for uses in (self.a, self.b))
        cells = g.cells(g.difference_shades(a, b, grid), grid)
        return Frame(cells, np.full(grid.rows, -1, np.int16), np.zeros((grid.rows, 3), np.int8))

    def action_view(self) -> None:
        """There is one view."""


class CompareScreen(Screen[None]):
    """The map, the cursor's expert in both profiles, and how much of what is hot they share."""

    CSS_PATH = Path(__file__).with_name("replay.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [bind("close", "close")]
    map = query_one(DifferenceMap)
    told = query_one("#told", Static)

    def __init__(self, names: tuple[str, str], key: str, sample: Sample, layers: int, looks: Looks) -> None:
        """names: of the profiles. key: the model's. sample: of its board, layers: all it has."""
        super().__init__()
        self._names, self._key, self._sample, self._layers, self._looks = names, key, sample, layers, looks

    def compose(self) -> ComposeResult:
        """Head, map, words."""
        a, b = map(clean, self._names)
        yield Static(Content.assemble(("compare ", "bold"), f"A {a}  B {b}"), id="head")
        difference = DifferenceMap(self._looks)
        difference.view = View.DIFFERENCE
        yield difference
        yield Static("reading the histories", id="told")
        yield KeysFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Read both histories."""
        self._read()

    @work(thread=True, exclusive=True, group="compare")
    def _read(self) -> None:
        rows, experts = list(self._sample.layers), self._sample.heat.shape[1]
        try:
            a, b = (read_counts(usage_path(name, self._key), self._layers, experts)[rows] for name in self._names)
        except EngineError as error:
            self.app.call_from_thread(self.told.update, Content(clean(str(error))))
        else:
            self.app.call_from_thread(self._show, a, b)

    def _show(self, a: Uses, b: Uses) -> None:
        if not self.is_attached:
            return
        for name, uses in zip(self._names, (a, b), strict=True):
            if not uses.any():
                self.told.update(Content(f"Profile {clean(name)} has learned nothing about this model yet."))
                return
        self.map.a, self.map.b = a, b
        self.map.show(replace(self._sample, heat=a + b, fired=np.zeros(a.shape, np.bool_)))
        self.told.update(Content(self._summary()))

    def _summary(self) -> str:
        hot = max(1, int(HOT_SHARE * self.map.a.shape[1]))
        in_a, in_b = ((ranks_of(uses) < hot) & (uses > 0) for uses in (self.map.a, self.map.b))
        both, either = int((in_a & in_b).sum()), int((in_a | in_b).sum())
        a, b = map(clean, self._names)
        only_a, only_b = int((in_a & ~in_b).sum()), int((in_b & ~in_a).sum())
        return (
            f"Hot in both {both:,}, only in {a} {only_a:,}, only in {b} {only_b:,}: "
            f"they share {100 * both / max(either, 1):.0f} % of what is hot. Arrows or a click choose an expert."
        )

    @on(Atlas.Pointed)
    def _pointed(self, event: Atlas.Pointed) -> None:
        event.stop()
        if event.cursor is None or not hasattr(self.map, "a"):
            return
        layer, expert = event.cursor
        words = [f"layer {self._sample.layers[layer]}, expert {expert}"]
        for name, uses in zip(self._names, (self.map.a, self.map.b), strict=True):
            rank = 1 + int(np.count_nonzero(uses[layer] > uses[layer, expert]))
            words.append(f"{clean(name)}: {int(uses[layer, expert]):,} uses, number {rank}")
        self.told.update(Content("  ".join(words)))

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = self.map.looks = looks

    def action_close(self) -> None:
        """Back to the chat."""
        self.dismiss(None)
