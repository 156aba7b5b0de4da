"""Code that arrives in pieces.

A lexer has to start somewhere, and starting at the top of the fence for every new token would cost more with
every line. So lines are coloured in chunks: the lexer starts again at a line from which it is seen to give
the same colours as when it came from above. When the fence closes, all of it is coloured once from the top,
and that is what stays.
"""

from __future__ import annotations

import re
from typing import Final

from textual.content import Content

from colibri_tui.render.blocks import CodeLines, FenceHead
from colibri_tui.render.clean import clean
from colibri_tui.render.highlight import highlight
from colibri_tui.render.markdown import code_parts
from colibri_tui.render.rows import Block

_CHUNK: Final = 16
"""Lines after which a new start is looked for."""
_PROOF: Final = 6
"""Lines that must come out the same from the new start."""
_MAX_CHUNK: Final = 6_000
"""Characters (about 15 ms) after which lines without a new start are left plain until the fence closes."""


class FenceStream:
    """An open fence at the left edge of a document, from the line after its opening on."""

    def __init__(self, marker: str, info: str) -> None:
        self.changed = 0
        """Number of the first of `blocks()` that the last `feed` changed."""
        self._marker = marker
        self._info = info
        self._closing = re.compile(rf" {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*")
        self._may_close = re.compile(rf" {{0,3}}{re.escape(marker[0])}+[ \t]*")
        self._lines: list[str] = []
        self._partial = ""
        self._closed = False
        self._chunks: list[Block] = []
        self._start = 0  # first line of the current chunk
        self._current: list[Content] = []
        self._plain = False

    def feed(self, text: str) -> str | None:
        """Add text. Return what follows the closing line, or None if there was none."""
        self.changed = 1 + len(self._chunks)
        text = self._partial + text
        position = 0
        while (newline := text.find("\n", position)) >= 0:
            line = text[position:newline]
            position = newline + 1
            if self._closing.fullmatch(line):
                self._closed = True
                self._partial = ""
                return text[position:]
            self._lines.append(line)
        self._partial = text[position:]
        self._colour()
        return None

    def blocks(self) -> list[Block]:
        """Return what there is to draw while the fence is open."""
        current: list[Block] = [CodeLines(self._current)] if self._current else []
        return [FenceHead(clean(self._info).strip(), None, self._marker), *self._chunks, *current]

    def finish(self) -> list[Block]:
        """Return the blocks of the fence, closed or not, when nothing more comes."""
        if self._closing.fullmatch(self._partial):
            self._closed = True
        elif self._partial.strip(" \t"):
            self._lines.append(self._partial)
        self._partial = ""
        code = "\n".join(self._lines) if self._lines else None
        return code_parts(code, self._info, self._marker, self._closed)

    def _colour(self) -> None:
        """Colour the current chunk and settle what is proven not to depend on what is above it."""
        lines = self._lines[self._start :]
        # A last line of backticks alone is most likely the beginning of the end: showing it would only make it flash.
        partial = [self._partial] if self._partial and not self._may_close.fullmatch(self._partial) else []
        info = "" if self._plain else self._info
        shown = [*lines, *partial]
        self._current = highlight("\n".join(shown), info) if shown else []
        start = len(lines) - _PROOF
        if len(lines) >= _CHUNK and sum(bool(line.strip()) for line in lines[start:]) * 2 >= _PROOF:
            alone = highlight("\n".join(shown[start:]), info)
            if all(one.is_same(other) for one, other in zip(self._current[start:], alone, strict=True)):
                self._settle(start)
        if sum(map(len, self._lines[self._start :])) > _MAX_CHUNK:
            self._settle(len(self._lines) - self._start)
            self._plain = True

    def _settle(self, count: int) -> None:
        if count:
            self._chunks.append(CodeLines(self._current[:count]))
            del self._current[:count]
            self._start += count
