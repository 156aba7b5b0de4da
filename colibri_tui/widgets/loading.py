"""One line of progress while something is got ready: a model, or the demo."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from colibri_tui.render.bars import meter
from colibri_tui.render.clean import clean
from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.units import size

BAR = 12
BYTES_FROM = 100_000
"""Totals from here on count bytes: nobody compiles so many kernels."""


def progress_text(stage: str, done: int, total: int) -> str:
    """Return a stage in words: 'compiling kernels 5/23', 'reading the dense part 400 MB of 1.20 GB'."""
    if total >= BYTES_FROM:
        return f"{clean(stage)} {size(done)} of {size(total)}"
    return f"{clean(stage)} {done}/{total}" if total > 0 else clean(stage)


class Loading(Static):
    """A bar and the stage's name; not displayed when nothing is loading."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Loading { height: 1; width: 1fr; display: none; text-wrap: nowrap; text-overflow: ellipsis; }
    Loading.-shown { display: block; }
    """

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs

    def show(self, stage: str, done: int, total: int, rest: str = "") -> None:
        """Show progress: `done` of `total`, or no bar when the total is not known (0). rest: how fast, how long yet."""
        bar = meter(done / total, BAR, self._glyphs.meter, self._glyphs.meter_rest) + "  " if total > 0 else ""
        self.update(
            Content.assemble((bar, "$accent"), progress_text(stage, done, total), (f"  {rest}", "$text-muted")),
            layout=False,
        )
        self.add_class("-shown")

    def hide(self) -> None:
        """Nothing is loading any more."""
        self.remove_class("-shown")
