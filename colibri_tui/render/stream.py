"""Markdown that arrives in pieces.

Finished pieces of the document are kept as they are; only the last, unfinished one is parsed again when text
is added. The result does not depend on how the text was cut, and equals `markdown(source)` of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from colibri_tui.render.blocks import Gap
from colibri_tui.render.clean import StreamCleaner
from colibri_tui.render.fence import FenceStream
from colibri_tui.render.markdown import flatten, parse
from colibri_tui.render.rows import Block


class MarkdownStream:
    """A document that grows at its end.

    blocks: what there is to draw now. After `feed` or `finish` returned n, blocks[:n] are those of before.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._cleaner = StreamCleaner()
        self._settled = 0  # blocks that will not change any more
        self._tail = ""  # source of what may still change
        self._gap = False  # whether the next piece stands apart from what is settled
        self._number: int | None = None  # of the next piece, if it is an item of an ordered list
        self._fence: FenceStream | None = None

    @property
    def source(self) -> str:
        """The text so far, cleaned."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def feed(self, text: str) -> int:
        """Add text; return the number of the first block that changed."""
        return self._add(self._cleaner.feed(text))

    def finish(self) -> int:
        """Say that nothing more comes; return the number of the first block that changed."""
        first = self._add(self._cleaner.finish())
        if self._fence is not None:
            first = min(first, self._settled)
            self._draw(self._fence.finish())
        return first

    def _add(self, text: str) -> int:
        if not text:
            return len(self.blocks)
        self._parts.append(text)
        first = self._settled
        if self._fence is not None:
            rest = self._fence.feed(text)
            if rest is None:
                self._draw(self._fence.blocks())
                return first + self._fence.changed
            self._draw(self._fence.finish())
            self._settled = len(self.blocks)
            self._fence = None
            self._gap = True
            text = rest
        self._tail += text
        if "\n" in text:
            self._advance()
        if self._fence is None:
            self._draw(flatten(parse(self._tail, number=self._number)))
        return first

    def _draw(self, blocks: Sequence[Block]) -> None:
        """Put the blocks of what is not settled behind those that are."""
        gap = [Gap()] if self._gap and blocks else []
        self.blocks[self._settled :] = [*gap, *blocks]

    def _settle(self, blocks: Sequence[Block]) -> None:
        """Draw blocks that will not change any more."""
        self._draw(blocks)
        self._settled = len(self.blocks)

    def _advance(self) -> None:
        """Settle the pieces that the complete lines of the tail have finished.

        The last line does not count before its newline has come: "#" ends a paragraph, "#tag" continues it.
        """
        end = self._tail.rfind("\n") + 1
        pieces = parse(self._tail[:end], number=self._number)
        if not pieces:
            return
        lines = self._tail[:end].split("\n")[:-1]
        last = pieces[-1]
        if last.final and not lines[-1].strip(" \t"):
            self._settle(flatten(pieces))
            self._gap, self._number = True, None
            self._tail = self._tail[end:]
            return
        if len(pieces) > 1:
            self._settle(flatten(pieces[:-1]))
            self._gap, self._number = last.gap, last.number
        self._tail = self._tail[sum(len(line) + 1 for line in lines[: last.line]) :]
        if last.fence and len(lines) > last.line + 1:  # with one line it may still become the head of a table
            self._open_fence(last.fence)

    def _open_fence(self, marker: str) -> None:
        """From here to the closing line the tail is code, and needs no parser."""
        opening, _newline, code = self._tail.partition("\n")
        self._tail = ""
        self._fence = FenceStream(marker, opening[len(marker) :])
        self._fence.feed(code)
        if self._gap:
            self.blocks[self._settled :] = [Gap()]
            self._settled += 1
            self._gap = False
        self._draw(self._fence.blocks())
