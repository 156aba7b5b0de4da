"""The panes in one line, for windows without room beside the chat: shares of hits, and a small atlas."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Resize

from colibri_tui.render.looks import Looks
from colibri_tui.telemetry import Reads, Sample
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.hit_bar import HitBar

ATLAS_FROM = 70
"""With fewer columns no more than a few cells of the atlas would fit beside the shares."""


class Hud(Container):
    """Draws samples while it is displayed; what comes meanwhile is not missed, a sample is the whole state."""

    DEFAULT_CSS = "Hud { layout: horizontal; height: 1; }"

    def __init__(self, looks: Looks, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.atlas = Atlas(looks)
        self.atlas.can_focus = False
        self.hits = HitBar(looks)

    def compose(self) -> ComposeResult:
        """Figures before the atlas."""
        yield self.hits
        yield self.atlas

    def on_resize(self, event: Resize) -> None:
        """The atlas needs room."""
        self.atlas.display = event.size.width >= ATLAS_FROM

    def show(self, sample: Sample, reads: Reads, *, settled: bool = False) -> None:
        """Draw, if anybody sees it. See `Atlas.show` and `HitBar.show`."""
        if self.display:
            self.atlas.show(sample, settled=settled)
            self.hits.show(reads, sample.ever)

    def clear(self) -> None:
        """Forget the model."""
        self.atlas.clear()
        self.hits.clear()

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self.atlas.looks = looks
        self.hits.looks = looks
