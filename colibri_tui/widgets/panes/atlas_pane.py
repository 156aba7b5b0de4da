"""The expert map as a pane."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from textual.app import ComposeResult

from colibri_tui.render.arrange import Wish
from colibri_tui.render.clean import clean
from colibri_tui.render.looks import Looks
from colibri_tui.scene import Scene
from colibri_tui.telemetry import Sample
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.panes.pane import Pane

FRAME = 3
"""Rows that are no layers: title, caption, legend."""


class AtlasPane(Pane):
    """Every expert of every layer, live; the keyboard belongs to the map inside."""

    NAME, TITLE = "atlas", "atlas"
    HELP_LINE = "Every expert of every layer: use or place, and what fires now"
    LEAST = 8
    DEFAULT_CSS = "AtlasPane Atlas { height: 1fr; }"

    def __init__(self, looks: Looks) -> None:
        super().__init__(looks)
        self.atlas = Atlas(looks)

    def compose(self) -> ComposeResult:
        """Title and map."""
        yield from super().compose()
        yield self.atlas

    def allow_focus(self) -> bool:
        """The map has the keyboard, not the pane around it."""
        return False

    def wish(self, scene: Scene | None) -> Wish:
        """A row for each layer, if possible."""
        layers = len(scene.sample.layers) if scene else self.LEAST
        good = -(-layers // 2 if self.looks.halves else -layers) + FRAME
        return Wish(self.NAME, self.LEAST, max(layers + FRAME, self.LEAST), good)

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        super().set_looks(looks)
        self.atlas.looks = looks

    def draw(self, scene: Scene, *, settled: bool = False) -> None:
        """Draw the live experts, or those of the chosen token."""
        number = scene.selection.token
        sample, note = scene.sample, ""
        if number is not None and (place := scene.trail.place(number)) is not None:
            sample = replace(sample, fired=fired_by(sample, scene.trail.ids[place]))
            text = scene.words[number]
            note = self.looks.glyphs.quoted(clean(text).strip()) if text and text.strip() else f"token {number}"
        self.atlas.note = note
        self.atlas.show(sample, settled=settled)

    def clear(self) -> None:
        """Forget the model."""
        self.atlas.note = ""
        self.atlas.clear()


def fired_by(sample: Sample, ids: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Return which experts [layers, experts] are among ids [layers, k]."""
    fired = np.zeros(sample.fired.shape, np.bool_)
    layers, places = np.nonzero(ids >= 0)
    fired[layers, ids[layers, places]] = True
    return fired
