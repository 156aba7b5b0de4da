"""The scrolling column of messages, and where the reader is in it.

Where the reader looks is decided while the layout is made (`arrange`), so no frame ever shows the wrong
place: at the end while following, otherwise at the text that was on top before, whatever was added above or
below and however wide it is now.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.layout import DockArrangeResult
from textual.message import Message
from textual.reactive import var
from textual.scrollbar import ScrollBar, ScrollDown, ScrollUp
from textual.widget import Widget

from colibri_tui.bindings import bind
from colibri_tui.render.marks import Mark
from colibri_tui.widgets.row_view import RowView
from colibri_tui.widgets.scroll_bar import QuickScrollBar

NEAR_END: Final = 2
"""Rows from the end within which scrolling down follows again."""


class _Place(NamedTuple):
    """What is at the top of the window: a message, a place in it, and how many rows above it the window begins."""

    view: RowView
    text: tuple[int, int]
    above: int


class _End(NamedTuple):
    """Where the messages ended when following did: so many rows of that message."""

    view: RowView
    rows: int


class MessageLog(VerticalScroll, inherit_bindings=False):
    """The messages of a conversation, the newest last."""

    BLANK = True  # nothing is drawn between the messages
    COMPONENT_CLASSES: ClassVar[set[str]] = {mark.value for mark in Mark}
    FOCUS_ON_CLICK = False  # a click that selects text must not take the keyboard away from the composer
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("transcript_up", "row_up", show=False),
        bind("transcript_down", "row_down", show=False),
        bind("transcript_page_up", "page_up", show=False),
        bind("transcript_page_down", "page_down", show=False),
        bind("transcript_home", "first", show=False),
        bind("transcript_end", "follow", show=False),
    ]

    following: var[bool] = var(True)
    """Whether the end is kept in view."""

    unseen: var[int] = var(0)
    """Rows that were added at the end while not following."""

    class TopReached(Message):
        """The reader wants to go further up than there is."""

    def __init__(self) -> None:
        super().__init__()
        self._arranged: DockArrangeResult | None = None
        self._regions: list[tuple[RowView, Region]] = []
        self._width = 0
        self._place: _Place | None = None
        self._end: _End | None = None

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scroll bar, made when it is first asked for, as Textual does it; but one of ours."""
        if self._vertical_scrollbar is None:
            bar = QuickScrollBar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            bar.display = False
            self._vertical_scrollbar = bar
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    # Scrolling

    def scroll_rows(self, rows: float) -> None:
        """Scroll down by some rows, up if negative, without animation: it costs frames and fights the stream."""
        if rows < 0 and self.scroll_y <= 0:
            self.post_message(self.TopReached())
        self.scroll_to(y=self.scroll_y + rows, animate=False, immediate=True)

    def action_row_up(self) -> None:
        """Scroll up by one row."""
        self.scroll_rows(-1)

    def action_row_down(self) -> None:
        """Scroll down by one row."""
        self.scroll_rows(1)

    def action_page_up(self) -> None:
        """Scroll up by a window, but for two rows that stay in sight."""
        self.scroll_rows(-max(self.size.height - 2, 1))

    def action_page_down(self) -> None:
        """Scroll down by a window, but for two rows that stay in sight."""
        self.scroll_rows(max(self.size.height - 2, 1))

    def action_first(self) -> None:
        """Go to the first message there is."""
        self.scroll_rows(-max(self.scroll_y, 1))

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.following = True
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)

    def on_scroll_up(self, event: ScrollUp) -> None:
        """Page up on a click above the scroll bar's handle."""
        event.stop()
        event.prevent_default()
        self.action_page_up()

    def on_scroll_down(self, event: ScrollDown) -> None:
        """Page down on a click below the scroll bar's handle."""
        event.stop()
        event.prevent_default()
        self.action_page_down()

    # Following

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling up ends following at once; scrolling down near the end resumes it."""
        super().watch_scroll_y(old_value, new_value)
        if new_value > old_value:
            if self.max_scroll_y - new_value <= NEAR_END:
                self.following = True
        elif new_value < self.max_scroll_y:  # otherwise content shrank, which is not the reader's doing
            self.following = False
        self._place = None if self.following else self._find_place(round(new_value))

    def watch_following(self, following: bool) -> None:
        """Begin or end to count what comes in below."""
        self.unseen = 0
        self._end = None
        if not following and self._regions:
            view, region = self._regions[-1]
            self._end = _End(view, region.height)

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Arrange the messages, and the window over them."""
        result = super().arrange(size, optimal)
        height = result.total_region.bottom
        if self.following:
            self._jump(max(height - size.height, 0))
        if result is not self._arranged:
            self._arranged = result
            self._regions = [(p.widget, p.region) for p in result.placements if isinstance(p.widget, RowView)]
            if not self.following:
                self._keep_place()
                self._count_unseen(same_width=size.width == self._width)
            self._width = size.width
        return result

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """Take a new size without asking for another layout, which would be the same: room for the scroll bar is kept.

        A private hook, like the one of `RowView`.
        """
        return super()._size_updated(size, virtual_size, container_size, layout=False)

    def _jump(self, y: int) -> None:
        """Move the window, in the layout that is being made."""
        if y != self.scroll_y:
            self.set_scroll(None, y)
            self.set_reactive(Widget.scroll_target_y, y)
            self.vertical_scrollbar.set_reactive(ScrollBar.position, y)

    def _find_place(self, y: int) -> _Place | None:
        for view, region in self._regions:
            if region.bottom > y:
                line = y - region.y
                return _Place(view, view.place_of(max(line, 0)), max(-line, 0))
        return None

    def _keep_place(self) -> None:
        place = self._place
        for view, region in self._regions:
            if place is not None and view is place.view:
                self._jump(max(region.y + view.line_of(place.text) - place.above, 0))
                return

    def _count_unseen(self, *, same_width: bool) -> None:
        end = self._end
        top = next((region.y for view, region in self._regions if end is not None and view is end.view), None)
        if end is None or top is None:
            return
        rows = self._regions[-1][1].bottom - top
        if same_width:
            self.unseen = max(rows - end.rows, 0)
        else:  # every line may be wrapped anew; what was not seen before is not seen now
            self._end = _End(end.view, rows - self.unseen)
