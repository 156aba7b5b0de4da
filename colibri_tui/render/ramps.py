"""Colours of the atlas and the bars at the four depths a terminal may have.

Terminals of 256 colours get the palette's own index: the nearest colour that a library would compute merges
neighbouring levels of a ramp. With 16 colours, or none, heat is a glyph and colour only helps.

What fires keeps its level: its ramp runs beside the other one in another hue, so that experts which come and go at
every token change the hue of their cells more than their lightness, and the screen does not flicker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rich.color import Color
from rich.style import Style

from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.shades import FIRED_PLACE, HEAT_LEVELS, SHADES, Difference, Heat, Place, View


class Depth(Enum):
    """What the terminal can show."""

    TRUECOLOR = "truecolor"
    XTERM = "256"
    ANSI = "16"
    MONO = "none"

    @property
    def paints(self) -> bool:
        """Whether heat is a background colour; otherwise it is a glyph."""
        return self in (Depth.TRUECOLOR, Depth.XTERM)


def depth_of(color_system: str | None, *, ansi_theme: bool, no_color: bool) -> Depth:
    """Return the depth from what Textual found out about the terminal (`app.console.color_system`)."""
    if no_color:
        return Depth.MONO
    if ansi_theme or color_system in ("standard", "windows"):
        return Depth.ANSI
    return Depth.XTERM if color_system == "256" else Depth.TRUECOLOR


@dataclass(frozen=True, slots=True)
class Ink:
    """One colour: 24 bit as '#rrggbb', and its index among the 256."""

    rgb: str
    index: int

    def at(self, depth: Depth) -> Color:
        """Return the colour for a depth that paints."""
        return Color.from_ansi(self.index) if depth is Depth.XTERM else Color.parse(self.rgb)


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of what the engine does.

    heat: one ink per level, dark to bright or bright to dark. fired: one per level from 1 on.
    places: one per `Place` from UNUSED on; fired_places: the same for experts that fire.
    """

    heat: tuple[Ink, ...]
    fired: tuple[Ink, ...]
    places: tuple[Ink, ...]
    fired_places: tuple[Ink, ...]

    def __post_init__(self) -> None:
        assert len(self.heat) == len(self.fired) + 1 == HEAT_LEVELS
        assert len(self.places) == len(self.fired_places) == len(Place) - 1

    def of(self, view: View) -> dict[int, Ink]:
        """Return the ink of every shade of a view except BLANK."""
        if view is View.DIFFERENCE:
            even = Difference.EVEN
            first = {even - n: self.heat[n + 1] for n in (1, 2, 3)}
            second = {even + n: self.fired[2 * n - 1] for n in (1, 2, 3)}
            return {Difference.UNUSED: self.places[0], even: self.heat[0], **first, **second}
        if view is View.HEAT:
            return dict(enumerate(self.heat, Heat.LEVEL)) | dict(enumerate(self.fired, Heat.FIRED + 1))
        fired = dict(enumerate(self.fired_places, Place.UNUSED + FIRED_PLACE))
        return dict(enumerate(self.places, Place.UNUSED)) | fired


_ANSI_PLACES = {Place.CACHE: Style(color="cyan"), Place.PIN: Style(color="yellow")}


def row_cells(palette: Palette, glyphs: Glyphs, depth: Depth, view: View, ground: Color) -> list[tuple[str, Style]]:
    """Return (glyph, style) per shade for atlases with one layer a row.

    ground: the background colour; used only where the depth paints.
    """
    letters = glyphs.of(view)
    fired_from = {View.HEAT: Heat.FIRED + 1, View.TIER: Place.UNUSED + FIRED_PLACE}.get(view, SHADES)
    if not depth.paints:
        fired = Style(reverse=True) if depth is Depth.MONO else Style(color="bright_white", bold=True)
        styles = [fired if shade >= fired_from else Style() for shade in range(SHADES)]
        if depth is Depth.ANSI and view is View.TIER:
            for place, style in _ANSI_PLACES.items():
                styles[place] = style
        return list(zip(letters, styles, strict=True))
    cells = [(" ", Style(bgcolor=ground))] * SHADES
    for shade, ink in palette.of(view).items():
        colour = ink.at(depth)
        if view is View.TIER and shade < fired_from:
            cells[shade] = (letters[shade], Style(color=colour, bgcolor=ground))
        else:
            cells[shade] = (" ", Style(bgcolor=colour))
    return cells


def half_cells(palette: Palette, glyphs: Glyphs, depth: Depth, view: View, ground: Color) -> list[tuple[str, Style]]:
    """Return (glyph, style) for every pair of shades, at index `upper * SHADES + lower`: two layers a cell.

    Only for depths that paint, with a glyph set that has an upper half.
    """
    colours = [ground] * SHADES
    for shade, ink in palette.of(view).items():
        colours[shade] = ink.at(depth)
    return [(glyphs.upper_half, Style(color=upper, bgcolor=lower)) for upper in colours for lower in colours]
