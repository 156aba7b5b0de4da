"""Plain stand-ins for the symbols that the program draws, for terminals and fonts that have ASCII only.

What a person or a model wrote is not touched unless it uses these very symbols: letters of other scripts have no
stand-in worth reading.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_PAIRS: Final = (
    ("─┄┈╌▔▁▂▃▄▅▆▇⎯", "-"),
    ("━═", "="),  # a bar that was filled is not the one to be filled,
    ("│┃║▏▎▍▌▋▊▉▐▕", "|"),
    ("┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋", "+"),
    ("█▓■▮", "#"),
    ("░▒▯", "."),
    ("·•‣◦∙", "-"),
    ("❯›»▶▸", ">"),
    ("‹«◀◂", "<"),
    ("↑▲▴▀", "^"),
    ("↓▼▾", "v"),
    ("→↪", ">"),
    ("←⏎", "<"),
    ("✗✘×", "x"),
    ("✓✔", "v"),
    ("●○◉", "o"),
    ("“”„", '"'),
    ("‘’‚", "'"),
    ("–—‐", "-"),
    ("…", "."),
    ("🔎", "> "),  # as wide as what it stands for
)
TABLE: Final = {ord(symbol): plain for symbols, plain in _PAIRS for symbol in symbols} | {
    code: "." if code > 0x2800 else " " for code in range(0x2800, 0x2900)
}


@lru_cache(4096)
def in_ascii(text: str) -> str:
    """Return a text of the same width without the program's symbols."""
    return text if text.isascii() else text.translate(TABLE)


class AsciiFilter(LineFilter):
    """Puts stand-ins for symbols into everything that is drawn."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return segments without symbols."""
        return [
            segment if segment.text.isascii() else Segment(in_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]
