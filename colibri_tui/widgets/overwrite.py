"""Small changes of a picture, written over what the terminal shows already.

Textual draws whole lines anew: for a map of which every row changes in a few cells that is ten times the work, for the
screen's process and for the terminal. What is written here must be a part of what the widget would draw if it were
asked, so that any later repaint, for whatever reason, shows the same.
"""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.geometry import Offset, Size
from textual.widget import Widget


class _Text(CompositorUpdate):
    """Escape sequences as they are."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self._text)

    def render_segments(self, console: Console) -> str:
        """Return them."""
        return self._text


def place_of(widget: Widget, size: Size) -> Offset | None:
    """Return where on the terminal a widget of this size begins; None unless all of it is seen, and nothing before it.

    None also while the terminal is not to be written to: then the widget asks for a repaint, as others do.
    """
    app: App[object] = widget.app
    if not app.is_running or app.is_headless or app.is_inline or app._batch_count or app.screen is not widget.screen:
        return None
    seen = app.screen._compositor.visible_widgets  # the topmost first
    if widget not in seen:
        return None
    region, clip = seen[widget]
    if region.size != size or not clip.contains_region(region) or not app.size.region.contains_region(region):
        return None
    for other, (where, cut) in seen.items():
        if other is widget:
            return region.offset
        if where.intersection(cut).overlaps(region):
            return None
    return None


def overwrite(widget: Widget, text: str) -> None:
    """Write escape sequences to the terminal, between two updates of the screen."""
    widget.app._display(widget.screen, _Text(text))
