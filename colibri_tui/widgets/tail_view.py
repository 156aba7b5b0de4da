"""The running answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from sys import intern
from time import perf_counter
from typing import Final

from textual.content import Content
from textual.timer import Timer

from colibri_tui.keys_first import hold
from colibri_tui.render.blocks import Prose
from colibri_tui.render.clean import clean
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import EMPTY, Block, Row
from colibri_tui.render.stream import MarkdownStream
from colibri_tui.widgets.message_view import MessageView, ReplyStatus, TranscriptMessage, note_blocks
from colibri_tui.widgets.reasoning import Reasoning, with_answer

SHARE: Final = 8
"""After t seconds of drawing the next drawing waits for this many times t: it never takes all of the screen's time."""
FRAME_SECONDS: Final = 0.008
"""Drawing takes about this long at most, or keys would wait for it; what does not fit into it comes with the next."""
_FIRST_FRAME: Final = 2_000
_LEAST_FRAME: Final = 200
"""Characters drawn together: at first, and at least."""
_BAR: Final = 40


class TailView(MessageView):
    """A message that still grows. Once finished it stays where it is, like any other message."""

    def __init__(self, *, opened: bool = False) -> None:
        """opened: whether the reasoning is shown."""
        super().__init__(TranscriptMessage("assistant", ""), opened=opened)
        self._opened = opened
        self._stream: MarkdownStream | None = MarkdownStream()
        self._pending: list[str] = []
        self._frame = _FIRST_FRAME
        self._due = 0.0
        self._timer: Timer | None = None
        self._empty: list[Block] = [Prose([EMPTY])]
        self._drawn = False  # whether any of the answer is on screen
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
        if self._stream is None or self._pending or self._stream.source or self.reasoning is not None:
            return
        if text:
            self.show_blocks([Progress(clean(text), fraction)])
        else:
            self.show_blocks(self._empty, cursor=True)

    def feed_reasoning(self, text: str, label: str) -> None:
        """Add to what is thought before the answer; `label` says how long it took so far."""
        if self._stream is None or (not text and label == self.message.thought):
            return
        if self.reasoning is None:
            self.reasoning = Reasoning("", label, opened=self._opened)
            first = 0
        else:
            first = len(self.reasoning.blocks)
        first = min(first, self.reasoning.feed(text, label))
        self.message = replace(self.message, reasoning=self.message.reasoning + text, thought=label)
        self._show(self._stream.blocks, first)

    def open_reasoning(self, opened: bool) -> None:
        """Show the reasoning, or one line for it."""
        self._opened = opened
        if self._stream is None:
            super().open_reasoning(opened)
        elif self.reasoning is not None:
            self.reasoning.fold(opened)
            self._show(self._stream.blocks, 0)

    def _show(self, answer: list[Block], first: int) -> None:
        """Show the answer so far below the reasoning; first: the first block of both that changed."""
        self.show_blocks(with_answer(self.reasoning, answer), first, cursor=True)

    def feed(self, text: str) -> None:
        """Add text to the answer.

        It is drawn at once unless drawing has become expensive or a key has just come; then a little later. Of more
        than can be drawn in a frame the rest follows frame by frame.
        """
        if self._stream is None or not text:
            return
        self._pending.append(text)
        if self._timer is None:
            wait = max(self._due - perf_counter(), hold(self.app))
            if wait <= 0:
                self._draw()
            else:
                self._timer = self.set_timer(wait, self._draw)

    def finish(self, status: ReplyStatus, note: str) -> TranscriptMessage:
        """End the answer and return it."""
        if (stream := self._stream) is not None:
            self._draw(whole=True)
            first = stream.finish() if self._drawn else 0
            self._stream = None
            self.message = replace(self.message, content=intern(stream.source), status=status, note=note)
            self._answer = [*stream.blocks, *note_blocks(status, note)]
            if self.reasoning is not None:
                first = min(self.reasoning.end(self.message.thought), len(self.reasoning.blocks) + first)
            self.show_blocks(with_answer(self.reasoning, self._answer), first)
        return self.message

    def _draw(self, *, whole: bool = False) -> None:
        """Draw what is pending, as much of it as fits into a frame."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if (stream := self._stream) is None or not self._pending or not self.is_attached:
            return
        started = perf_counter()
        text = "".join(self._pending)
        end = len(text) if whole else self._frame
        first = stream.feed(text[:end])
        self._pending = [text[end:]] if end < len(text) else []
        if stream.blocks:
            if self.reasoning is not None and not self._drawn:
                self.reasoning.relabel(self.message.thought)
            above = len(self.reasoning.blocks) + 1 if self.reasoning is not None and self._drawn else 0
            self._show(stream.blocks, above + first if self._drawn else above)
            self._drawn = True
            self.paint_ahead(self.screen.size.height)
        ended = perf_counter()
        wait = SHARE * (ended - started)
        self._due = ended + wait
        if len(text) >= self._frame and not whole:  # a full frame: the next one may be larger, or has to be smaller
            fitting = self._frame * FRAME_SECONDS / max(ended - started, 1e-4)
            self._frame = max(_LEAST_FRAME, round((self._frame + min(fitting, 4 * self._frame)) / 2))
        if self._pending:
            self._timer = self.set_timer(wait, self._draw)


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
