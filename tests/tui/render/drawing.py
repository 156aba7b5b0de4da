"""Blocks as lines of text, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from colibri_tui.render.markdown import markdown
from colibri_tui.render.rows import Block, Layout, Line


def drawn(line: Line) -> str:
    """Return what one display line shows."""
    decoration = line.row.first if line.start == 0 else line.row.rest
    return ("".join(text for text, _mark in decoration) + line.row.text.plain[line.start : line.stop]).rstrip()


def draw(blocks: Sequence[Block], width: int = 60) -> list[str]:
    """Return what all blocks show."""
    layout = Layout(width)
    layout.update(blocks)
    lines = [drawn(line) for line in layout.lines]
    assert all(cell_len(line) <= width for line in lines)
    return lines


def shown(source: str, width: int = 60) -> list[str]:
    """Return what a Markdown document shows."""
    return draw(markdown(source), width)


def styled(source: str, width: int = 60) -> list[object]:
    """Return everything about a document's rows, for comparison."""
    return describe(markdown(source), width)


def describe(blocks: Sequence[Block], width: int = 60) -> list[object]:
    """Return everything about the rows of blocks."""
    return [
        (
            row.text.plain,
            list(row.painted.spans),
            row.first,
            row.rest,
            row.lead,
            row.style,
            row.words,
            row.copied,
            row.code,
        )
        for block in blocks
        for row in block.rows(width)
    ]
