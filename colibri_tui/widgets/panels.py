"""The atlas and the hit bar together: as a column beside the chat, and as one line in narrow windows."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container

from colibri_tui.render.looks import Looks
from colibri_tui.telemetry import Reads, Sample
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.hit_bar import BLOCK, HitBar

FRAME: Final = 3
"""Rows that are no layers: the atlas' caption and legend, and the space before the hit bar."""
FULL: Final = 2 * BLOCK + 1
BRIEF: Final = BLOCK + 1
"""Rows of the hit bar with two blocks of figures, and with one."""


class Panel(Container):
    """Draws samples while it is displayed; what comes meanwhile is not missed, a sample is the whole state."""

    DEFAULT_CSS = """
    Panel { layout: vertical; }
    Panel.-line { layout: horizontal; height: 1; }
    Panel.-brief HitBar { height: 5; }
    """

    def __init__(self, looks: Looks, *, line: bool = False, id: str | None = None) -> None:
        super().__init__(id=id, classes="-line" if line else None)
        self.atlas = Atlas(looks)
        self.atlas.can_focus = not line
        self.hits = HitBar(looks)
        self._line = line

    def compose(self) -> ComposeResult:
        """Atlas above figures, or figures before atlas."""
        yield from (self.hits, self.atlas) if self._line else (self.atlas, self.hits)

    def show(self, sample: Sample, reads: Reads, *, settled: bool = False) -> None:
        """Draw, if anybody sees it. See `Atlas.show` and `HitBar.show`."""
        if self.display:
            if not self._line:
                self.set_class(self._would_help(len(sample.layers)), "-brief")
            self.atlas.show(sample, settled=settled)
            self.hits.show(reads, sample.ever)

    def _would_help(self, layers: int) -> bool:
        """Whether every layer gets a row of its own if the hit bar leaves out its second block."""
        rows = self.size.height - FRAME
        return rows - FULL < layers <= rows - BRIEF

    def clear(self) -> None:
        """Forget the model."""
        self.atlas.clear()
        self.hits.clear()

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self.atlas.looks = looks
        self.hits.looks = looks
