"""What a model thought before its answer: one line or, opened, all of it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Final

from textual.content import Content

from colibri_tui.render.blocks import Gap, Margin, Prose
from colibri_tui.render.clean import StreamCleaner
from colibri_tui.render.inline import plain
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import Block, Row

_MARGIN: Final = Margin((("│ ", Mark.REASONING),), (("│ ", Mark.REASONING),))
_LABEL_SECONDS: Final = 0.5
"""The head changes this often while the reasoning grows: figures that change faster cannot be read."""


@dataclass(frozen=True, slots=True)
class Head:
    """The line that opens and closes the reasoning."""

    label: str
    opened: bool

    def rows(self, width: int) -> list[Row]:
        """Return one row."""
        return [Row(Content.styled(f"{'▾' if self.opened else '▸'} {self.label}", Mark.REASONING), copied=False)]


class Reasoning:
    """The blocks of a message's reasoning, which may grow. The head is always the first block.

    `blocks` is one list, changed in place; what changes it returns the number of the first block that is different.
    """

    def __init__(self, text: str = "", label: str = "", *, opened: bool = False) -> None:
        self.opened = opened
        self._label = label
        self._lines = [""]
        self._cleaner = StreamCleaner()
        self._due = 0.0
        self.blocks: list[Block] = [Head(label, opened)]
        self.feed(text, label)
        if text:
            self.end(label)

    @property
    def source(self) -> str:
        """All of it."""
        return "\n".join(self._lines).strip()

    def feed(self, text: str, label: str) -> int:
        """Add text; the label appears a little later if it has just changed."""
        first = self._add(self._cleaner.feed(text))
        now = monotonic()
        if now >= self._due:
            self._due = now + _LABEL_SECONDS
            first = min(first, self.relabel(label))
        return first

    def end(self, label: str) -> int:
        """Nothing more comes."""
        first = self._add(self._cleaner.finish())
        while len(self._lines) > 1 and not self._lines[-1].strip():
            self._lines.pop()
            first = min(first, len(self._lines))
        if self.opened:
            del self.blocks[1 + len(self._lines) :]
        return min(first, self.relabel(label))

    def relabel(self, label: str) -> int:
        """Say something else in the head."""
        if label == self._label:
            return len(self.blocks)
        self._label = label
        self.blocks[0] = Head(label, self.opened)
        return 0

    def fold(self, opened: bool) -> int:
        """Show all of it, or one line."""
        if opened == self.opened:
            return len(self.blocks)
        self.opened = opened
        self.blocks[:] = [Head(self._label, opened), *(map(_shown, self._lines) if opened else ())]
        return 0

    def _add(self, text: str) -> int:
        if self._lines == [""]:
            text = text.lstrip("\n")
        if not text:
            return len(self.blocks)
        first = len(self._lines) - 1
        last, *more = (self._lines[-1] + text).split("\n")
        self._lines[first:] = [last, *more]
        if self.opened:
            self.blocks[1 + first :] = map(_shown, self._lines[first:])
        return 1 + first


def _shown(line: str) -> Block:
    return Prose([text.stylize(Mark.REASONING) for text in plain(line)], _MARGIN)


def with_answer(reasoning: Reasoning | None, answer: list[Block]) -> list[Block]:
    """Return the blocks of a message with both."""
    if reasoning is None:
        return answer
    return [*reasoning.blocks, *([Gap(), *answer] if answer else [])]
