"""Colours of the theme among the 256 of xterm, where a terminal has no more.

What Rich does with a dark blue-grey is a navy or a teal: it rounds each channel. Here the nearest colour is the one
that looks nearest, so that a ground stays a ground.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.color import Color as RichColor
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, rgb_to_lab
from textual.filter import LineFilter

_LEVELS: Final = (0, 95, 135, 175, 215, 255)
_INDICES: Final = range(16, 256)
"""The first sixteen are whatever the terminal's owner wants."""
TINGE: Final = 2.0
"""How much more it counts when a colour is off in hue than in lightness: a tinted grey is better off grey."""


def _rgb(index: int) -> tuple[int, int, int]:
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    cube = index - 16
    return _LEVELS[cube // 36], _LEVELS[cube // 6 % 6], _LEVELS[cube % 6]


_LABS: Final = [rgb_to_lab(Color(*_rgb(index))) for index in _INDICES]


@lru_cache(1024)
def nearest(red: int, green: int, blue: int) -> int:
    """Return the index 16..255 of the colour that looks most like this one."""
    lab = rgb_to_lab(Color(red, green, blue))
    distances = [(lab.L - other.L) ** 2 + TINGE * ((lab.a - other.a) ** 2 + (lab.b - other.b) ** 2) for other in _LABS]
    return _INDICES[distances.index(min(distances))]


def ground(colour: str) -> str:
    """Return the colour nearest to this one that Rich, too, writes as its nearest number.

    For what covers much and is drawn past the filter.
    """
    index = nearest(*Color.parse(colour).rgb)
    grey = round(10.2 * (index - 231))
    return Color(grey, grey, grey).hex if index >= 232 else Color(*_rgb(index)).hex


def _mapped(colour: RichColor | None) -> RichColor | None:
    if colour is None or colour.type is not ColorType.TRUECOLOR or colour.triplet is None:
        return colour
    return RichColor.from_ansi(nearest(*colour.triplet))


@lru_cache(4096)
def _in_256(style: Style) -> Style:
    return style + Style(color=_mapped(style.color), bgcolor=_mapped(style.bgcolor))


class XtermFilter(LineFilter):
    """Puts everything that is drawn into the 256 colours."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return segments without 24-bit colours."""
        return [
            segment if segment.style is None else Segment(segment.text, _in_256(segment.style), segment.control)
            for segment in segments
        ]
