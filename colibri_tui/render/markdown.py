"""Markdown -> blocks, ready to be laid out at any width.

CommonMark plus tables and strikethrough, with three deliberate differences that a chat needs: a newline is a
newline, HTML is text, and reference definitions are text too. The last one makes a document the sum of its
pieces: nothing that comes later changes what an earlier piece looks like, which is why an answer can be
rendered while it arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from textual.content import Content

from colibri_tui.render.blocks import NO_MARGIN, CodeLines, FenceFoot, FenceHead, Gap, Margin, Prose, Rule
from colibri_tui.render.clean import clean
from colibri_tui.render.highlight import Highlighted
from colibri_tui.render.inline import inline, plain
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import EMPTY, Block
from colibri_tui.render.table import Align, Table

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BULLETS: Final = ("•", "◦", "‣")
_HEADINGS: Final = {"h1": Mark.H1, "h2": Mark.H2, "h3": Mark.H3}
_TASK: Final = re.compile(r"\[[ xX]\] ")
_QUOTE_MARGIN: Final = Margin((("│ ", Mark.QUOTE),), (("│ ", Mark.QUOTE),), "> ", "> ")
_MAX_NESTING: Final = 20
"""Levels of quotes and lists (a list and its item are one each); what is deeper is shown as it was written."""


@dataclass(slots=True)
class Piece:
    """A top-level block, or one item of a top-level list: what is rendered on its own.

    line: where it starts in the source. gap: whether it stands apart from the piece before.
    number: of an ordered list's item. final: a blank line after it ends it.
    fence: marker of a top-level fence at the left edge that is still open, "" otherwise.
    """

    line: int
    gap: bool
    number: int | None = None
    final: bool = False
    blocks: list[Block] = field(default_factory=list)
    fence: str = ""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING}).enable("table")
    return parser.disable(["inline", "text_join", "reference"])


def markdown(source: str) -> list[Block]:
    """Return the blocks of a whole document."""
    return flatten(parse(clean(source, tab_size=None)))


def flatten(pieces: Sequence[Piece]) -> list[Block]:
    """Return the blocks of all pieces, with the gaps between them but none before the first."""
    blocks: list[Block] = []
    for number, piece in enumerate(pieces):
        if number and piece.gap:
            blocks.append(Gap())
        blocks.extend(piece.blocks)
    return blocks


def code_blocks(source: str) -> list[str]:
    """Return the contents of a document's fences, first to last, as they were written."""
    if "```" not in source and "~~~" not in source:
        return []
    return [token.content.removesuffix("\n") for token in _parser().parse(source) if token.type == "fence"]


def parse(source: str, *, number: int | None = None) -> list[Piece]:
    """Return the pieces of cleaned `source`.

    number: what the first item is called if the source starts with an item of an ordered list that began
    earlier.
    """
    return _Builder(source.split("\n"), number).build(_parser().parse(source))


def code_parts(code: str | None, info: str, marker: str, closed: bool, margin: Margin = NO_MARGIN) -> list[Block]:
    """Return the blocks of a piece of code; `code` is None if it has no line at all."""
    parts: list[Block] = [FenceHead(clean(info).strip(), code or "", marker, margin)]
    if code is not None:
        coloured = Highlighted(code, info)
        parts.append(CodeLines(coloured.plain, margin.continued, coloured.line))
    if closed:
        parts.append(FenceFoot(marker, margin.continued))
    return parts


@dataclass(slots=True)
class _Container:
    """A quote or list item that is open, or the document itself."""

    margin: Margin = NO_MARGIN
    unread: Sequence[str] = ()  # its source, if the parser does not go as deep as that
    started: bool = False  # something was drawn in it
    children: int = 0


@dataclass(slots=True)
class _List:
    """A list that is open; `number` of its next item if it is ordered."""

    number: int | None
    children: int = 0


class _Builder:
    """Walks over block tokens and collects pieces."""

    def __init__(self, lines: list[str], number: int | None) -> None:
        self._lines = lines
        self._number = number
        self._pieces: list[Piece] = []
        self._containers = [_Container()]
        self._lists: list[_List] = []

    def build(self, tokens: Sequence[Token]) -> list[Piece]:
        position = iter(tokens)
        for token in position:
            match token.type:
                case "bullet_list_open" | "ordered_list_open":
                    self._open_list(token)
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._open_item(token)
                case "blockquote_open":
                    self._begin(token)
                    self._containers.append(_Container(_QUOTE_MARGIN, self._unread(token)))
                case "list_item_close" | "blockquote_close":
                    self._close_container()
                case "heading_open":
                    self._begin(token)
                    self._heading(next(position), _HEADINGS.get(token.tag, Mark.H4))
                case "paragraph_open":
                    self._begin(token)
                    self._paragraph(next(position))
                case "fence" | "code_block":
                    self._begin(token)
                    self._code(token)
                case "hr":
                    self._begin(token)
                    self._add(Rule(self._margin()))
                case "table_open":
                    self._begin(token)
                    self._table(position)
                case _:
                    pass  # the ends of paragraphs and headings
        return self._pieces

    # Structure

    def _begin(self, token: Token) -> None:
        """Start a leaf or a quote."""
        self._child(token, apart=True, final=token.type != "code_block")

    def _child(self, token: Token, *, apart: bool, final: bool = False, number: int | None = None) -> None:
        """Start a block: a new piece if it is a top-level one, and a gap if it stands apart from its
        siblings.

        apart: it does so even without an empty line before it, at the top level.
        """
        container = self._containers[-1]
        line = token.map[0] if token.map else 0
        top = len(self._containers) == 1
        gap = container.children > 0 and ((apart and top) or self._blank_before(line))
        container.children += 1
        if top:
            self._pieces.append(Piece(line, gap, number, final))
        elif gap:
            self._add(Gap(self._margin().continued))

    def _open_list(self, token: Token) -> None:
        start: int | None = None
        if token.type == "ordered_list_open":
            start = int(token.attrs.get("start", 1))
            if not self._pieces and self._number is not None and not self._lists:
                start = self._number
        self._lists.append(_List(start))

    def _open_item(self, token: Token) -> None:
        siblings = self._lists[-1]
        self._child(token, apart=siblings.children == 0, number=siblings.number)
        siblings.children += 1
        if siblings.number is None:
            bullet, lead = _BULLETS[min(len(self._lists), len(_BULLETS)) - 1] + " ", f"{token.markup} "
        else:
            bullet = lead = f"{siblings.number}{token.markup} "
            siblings.number += 1
        indent = " " * len(bullet)
        margin = Margin(((bullet, Mark.BULLET),), ((indent, ""),), lead, " " * len(lead))
        self._containers.append(_Container(margin, self._unread(token)))

    def _unread(self, token: Token) -> Sequence[str]:
        """Return the source of a container that the parser leaves empty because it is too deep."""
        return self._lines[slice(*token.map)] if token.map and token.level + 1 >= _MAX_NESTING else ()

    def _close_container(self) -> None:
        container = self._containers[-1]
        if not container.started:
            lines = plain("\n".join(container.unread)) if any(container.unread) else [EMPTY]
            self._add(Prose(lines, self._margin()))
        self._containers.pop()

    def _blank_before(self, line: int) -> bool:
        return line > 0 and not self._lines[line - 1].strip(" \t>")

    def _margin(self) -> Margin:
        """Return the margin of the next block; containers that were drawn already continue."""
        margin = NO_MARGIN
        for container in self._containers[1:]:
            margin += container.margin.continued if container.started else container.margin
        return margin

    def _add(self, *blocks: Block) -> None:
        self._pieces[-1].blocks.extend(blocks)
        if not isinstance(blocks[0], Gap):
            for container in self._containers:
                container.started = True

    # Leaves

    def _heading(self, token: Token, mark: Mark) -> None:
        lines = [line.stylize_before(mark) for line in inline(token.content)]
        margin = self._margin()
        self._add(Prose(lines, margin))

    def _paragraph(self, token: Token) -> None:
        lines = inline(token.content)
        container = self._containers[-1]
        if not container.started and self._lists and _TASK.match(lines[0].plain):
            lines = [lines[0].stylize(Mark.BULLET, 0, 3), *lines[1:]]
            (bullet, style), *_ = container.margin.first or (("", ""),)
            if style == Mark.BULLET and bullet[0] in _BULLETS:
                # The box is the bullet. What is copied keeps both.
                container.margin = Margin((), container.margin.rest, container.margin.lead, container.margin.lead_rest)
        self._add(Prose(lines, self._margin()))

    def _code(self, token: Token) -> None:
        code = token.content.removesuffix("\n")
        begin, end = token.map or [0, 0]
        height = token.content.count("\n") + (not token.content.endswith("\n") and token.content != "")
        is_fence = token.type == "fence"
        marker = token.markup or "```"
        closed = not is_fence or end - begin == height + 2
        margin = self._margin()
        self._add(*code_parts(code if height else None, token.info, marker, closed, margin))
        if not closed and len(self._containers) == 1:
            self._pieces[-1].final = False
            if self._lines[begin].startswith(marker):
                self._pieces[-1].fence = marker

    def _table(self, tokens: Iterator[Token]) -> None:
        rows: list[list[Content]] = []
        aligns: list[Align] = []
        line = 0
        for token in tokens:
            match token.type:
                case "table_close":
                    break
                case "tr_open":
                    rows.append([])
                    line = token.map[0] if token.map else 0
                case "tr_close" if len(rows) > 1:
                    self._keep_excess(rows[-1], self._lines[line])
                case "th_open":
                    style = str(token.attrs.get("style", ""))
                    aligns.append("right" if "right" in style else "center" if "center" in style else "left")
                case "inline":
                    rows[-1].append(inline(token.content)[0])
                case _:
                    pass
        self._add(Table(rows[0], rows[1:], aligns, self._margin()))

    @staticmethod
    def _keep_excess(row: list[Content], line: str) -> None:
        """Put cells beyond the last column, which Markdown would drop without a word, into the last column."""
        from markdown_it.rules_block.table import escapedSplit

        cells = [cell.strip() for cell in escapedSplit(line.strip(" \t>"))]
        if cells and not cells[0]:
            del cells[0]
        if cells and not cells[-1]:
            del cells[-1]
        if len(cells) > len(row):
            row[-1] = inline(" | ".join(cells[len(row) - 1 :]))[0]
