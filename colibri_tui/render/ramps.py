"""Colours of the atlas and the bars at the four depths a terminal may have.

Terminals of 256 colours get the palette's own index: the nearest colour that a library would compute merges
neighbouring levels of a ramp. With 16 colours, or none, heat is a glyph and colour only helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rich.color import Color
from rich.style import Style

from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.shades import HEAT_LEVELS, SHADES, Shade


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
    """Colours of what the engine does. `heat` has one ink per level, dark to bright or bright to dark."""

    heat: tuple[Ink, ...]
    fired: Ink  # on the heat ramp
    fired_tier: Ink  # on tier colours
    unused: Ink
    disk: Ink
    cache: Ink
    pin: Ink

    def __post_init__(self) -> None:
        assert len(self.heat) == HEAT_LEVELS

    def of_shades(self) -> dict[int, Ink]:
        """Return the ink of every shade except BLANK."""
        inks: dict[int, Ink] = {Shade.HEAT + level: ink for level, ink in enumerate(self.heat)}
        return inks | {
            Shade.UNUSED: self.unused,
            Shade.DISK: self.disk,
            Shade.CACHE: self.cache,
            Shade.PIN: self.pin,
            Shade.FIRED: self.fired,
            Shade.FIRED_TIER: self.fired_tier,
        }


_FIRED_BRIGHT = Style(color="bright_white", bold=True)
_ANSI_STYLES: dict[int, Style] = {
    Shade.CACHE: Style(color="cyan"),
    Shade.PIN: Style(color="yellow"),
    Shade.FIRED: _FIRED_BRIGHT,
    Shade.FIRED_TIER: _FIRED_BRIGHT,
}
_MONO_STYLES: dict[int, Style] = {Shade.FIRED: Style(reverse=True), Shade.FIRED_TIER: Style(reverse=True)}


def row_cells(palette: Palette, glyphs: Glyphs, depth: Depth, ground: Color) -> list[tuple[str, Style]]:
    """Return (glyph, style) per shade for atlases with one layer a row.

    ground: the background colour; used only where the depth paints.
    """
    letters = glyphs.of_shades()
    if not depth.paints:
        styles = _MONO_STYLES if depth is Depth.MONO else _ANSI_STYLES
        return [(letter, styles.get(n, Style())) for n, letter in enumerate(letters)]
    cells = [(" ", Style(bgcolor=ground))] * SHADES
    for shade, ink in palette.of_shades().items():
        colour = ink.at(depth)
        if shade in (Shade.UNUSED, Shade.DISK, Shade.CACHE, Shade.PIN):
            cells[shade] = (letters[shade], Style(color=colour, bgcolor=ground))
        else:
            cells[shade] = (" ", Style(bgcolor=colour))
    return cells


def half_cells(palette: Palette, glyphs: Glyphs, depth: Depth, ground: Color) -> list[tuple[str, Style]]:
    """Return (glyph, style) for every pair of shades, at index `upper * SHADES + lower`: two layers a cell.

    Only for depths that paint, with a glyph set that has an upper half.
    """
    colours = [ground] * SHADES
    for shade, ink in palette.of_shades().items():
        colours[shade] = ink.at(depth)
    return [(glyphs.upper_half, Style(color=upper, bgcolor=lower)) for upper in colours for lower in colours]
