"""The running answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from textual.content import Content
from textual.timer import Timer

from colibri_tui.render.blocks import Prose
from colibri_tui.render.clean import clean
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import EMPTY, Block, Row
from colibri_tui.render.stream import MarkdownStream
from colibri_tui.widgets.message_view import MessageView, ReplyStatus, TranscriptMessage, note_blocks

SHARE: Final = 8
"""After t seconds of drawing the next drawing waits for this many times t: it never takes all of the screen's time."""
_BAR: Final = 40


class TailView(MessageView):
    """A message that still grows. Once finished it stays where it is, like any other message."""

    def __init__(self) -> None:
        super().__init__(TranscriptMessage("assistant", ""))
        self._stream: MarkdownStream | None = MarkdownStream()
        self._pending: list[str] = []
        self._due = 0.0
        self._timer: Timer | None = None
        self._empty: list[Block] = [Prose([EMPTY])]
        self.blocks = self._empty
        self._cursor = True

    @property
    def source(self) -> str:
        """The text so far."""
        if self._stream is None:
            return super().source
        return self._stream.source + clean("".join(self._pending), tab_size=None)

    def set_progress(self, text: str, fraction: float | None) -> None:
        """Say what happens before the first token; an empty text says nothing again. Ignored once there is
        text.

        fraction: 0..1 draws a bar, None none.
        """
        if self._stream is None or self._pending or self._stream.source:
            return
        if text:
            self.show_blocks([Progress(clean(text), fraction)])
        else:
            self.show_blocks(self._empty, cursor=True)

    def feed(self, text: str) -> None:
        """Add text to the answer.

        It is drawn at once unless drawing has become expensive; then a little later.
        """
        if self._stream is None or not text:
            return
        self._pending.append(text)
        if self._timer is None:
            wait = self._due - perf_counter()
            if wait <= 0:
                self._draw()
            else:
                self._timer = self.set_timer(wait, self._draw)

    def finish(self, status: ReplyStatus, note: str) -> TranscriptMessage:
        """End the answer and return it."""
        if (stream := self._stream) is not None:
            self._draw()
            first = stream.finish() if self.blocks is stream.blocks else 0
            self._stream = None
            self.message = replace(self.message, content=stream.source, status=status, note=note)
            self.show_blocks([*stream.blocks, *note_blocks(status, note)], first)
        return self.message

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if (stream := self._stream) is None or not self._pending:
            return
        started = perf_counter()
        first = stream.feed("".join(self._pending))
        self._pending.clear()
        if stream.blocks:
            self.show_blocks(stream.blocks, first if self.blocks is stream.blocks else 0, cursor=True)
            self.paint_ahead(self.screen.size.height)
        ended = perf_counter()
        self._due = ended + SHARE * (ended - started)


@dataclass(frozen=True, slots=True)
class Progress:
    """A line such as "reading the prompt 512/1,204", and a thin bar."""

    text: str
    fraction: float | None

    def rows(self, width: int) -> list[Row]:
        """Return one row, or two with the bar."""
        rows = [Row(Content.styled(self.text, Mark.PROGRESS), copied=False)]
        if self.fraction is not None:
            room = min(width, _BAR)
            done = round(min(max(self.fraction, 0.0), 1.0) * room)
            bar = (("━" * done, Mark.BAR_DONE), ("─" * (room - done), Mark.BAR_REST))
            rows.append(Row(first=bar, copied=False))
        return rows
