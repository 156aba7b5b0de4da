"""Where to break a line of text so that every part fits into a number of terminal cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, get_character_cell_size, split_graphemes

_SPACES: Final = " \t\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u205f\u3000"
"""Spaces at which a line may break. The no-break spaces (U+00A0, U+2007, U+202F) are left out on purpose."""
_WORD: Final = re.compile(f"[^{_SPACES}]+[{_SPACES}]*")
# Chinese and Japanese break between any two characters, but not before closing and not after opening marks.
_NOT_FIRST: Final = frozenset(
    "、。，．・：；？！）］｝〕〉》」』】〙〗〟’”‐–〜ーゝゞ々ぁぃぅぇぉっゃゅょァィゥェォッャュョ%,.!?:;)]}"
)
_NOT_LAST: Final = frozenset("（［｛〔〈《「『【〘〖〝‘“([{")


def word_cuts(text: str, width: int) -> list[int]:
    """Return the offsets at which to cut `text`, one line without newlines, so that no part is wider than
    `width` cells.

    Breaks between words and between East Asian characters; a word that is wider than the line is cut between
    graphemes. Spaces stay at the end of the part before the cut and do not count towards its width.
    """
    width = max(width, 1)
    if _fits(text, width):
        return []
    cuts: list[int] = []
    column = 0
    position = 0
    for start, stop, end in _units(text):
        if start > position:
            column += cell_len(text[position:start])  # leading spaces
        position = end
        body = cell_len(text[start:stop])
        if column and column + body > width:
            cuts.append(start)
            column = 0
        if body > width:
            inner = fold_cuts(text[start:stop], width)
            cuts.extend(start + cut for cut in inner)
            column = cell_len(text[start + inner[-1] : end]) if inner else body
        else:
            column += cell_len(text[start:end])
    return cuts


def fold_cuts(text: str, width: int) -> list[int]:
    """Return the offsets at which to cut `text` anywhere between two graphemes, as a terminal would."""
    width = max(width, 1)
    if _fits(text, width):
        return []
    if text.isascii():
        return list(range(width, len(text), width))
    cuts: list[int] = []
    column = 0
    for start, _end, cells in split_graphemes(text)[0]:
        if column + cells > width and start:
            cuts.append(start)
            column = 0
        column += cells
    return cuts


def shorten(text: str, width: int) -> str:
    """Cut `text` to at most `width` cells, with an ellipsis where something is missing."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    room = width - 1
    stop = 0
    for _start, end, cells in split_graphemes(text)[0]:
        if cells > room:
            break
        room -= cells
        stop = end
    return text[:stop] + "…"


def _fits(text: str, width: int) -> bool:
    return len(text) <= width if text.isascii() else cell_len(text) <= width


def _units(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end without spaces, end) of every part that is kept on one line if possible."""
    for match in _WORD.finditer(text):
        start, end = match.span()
        word = match.group()
        body = word.rstrip(_SPACES)
        stop = start + len(body)
        if len(body) == 1 or body.isascii() or not any(map(_is_wide, body)):
            yield start, stop, end
        else:
            yield from _east_asian_units(text, start, stop, end)


def _is_wide(character: str) -> bool:
    return get_character_cell_size(character) > 1


def _east_asian_units(text: str, start: int, stop: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Split a word with wide characters before and after each of them, except where the marks forbid it."""
    begin = start
    previous = ""
    previous_wide = False
    for left, right, cells in split_graphemes(text[start:stop])[0]:
        grapheme = text[start + left : start + right]
        wide = cells > 1
        allowed = (wide or previous_wide) and grapheme[0] not in _NOT_FIRST and previous not in _NOT_LAST
        if allowed and start + left > begin:
            yield begin, start + left, start + left
            begin = start + left
        previous, previous_wide = grapheme[0], wide
    yield begin, stop, end
