"""How the atlas and the bars are drawn here and now: colours, glyphs, depth of the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.color import Color, ColorSystem
from rich.style import Style

from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.ramps import Depth, Palette, half_cells, row_cells
from colibri_tui.render.shades import Place, View

_SYSTEMS = {
    Depth.TRUECOLOR: ColorSystem.TRUECOLOR,
    Depth.XTERM: ColorSystem.EIGHT_BIT,
    Depth.ANSI: ColorSystem.STANDARD,
    Depth.MONO: ColorSystem.STANDARD,
}
_ANSI_BARS = {Place.PIN: "ansi_yellow", Place.CACHE: "ansi_cyan"}


@dataclass(frozen=True, slots=True)
class Looks:
    """One immutable bundle, so that a widget compares looks to know whether its tables are stale."""

    palette: Palette
    glyphs: Glyphs
    depth: Depth

    @property
    def color_system(self) -> ColorSystem:
        """The system escape sequences are written for."""
        return _SYSTEMS[self.depth]

    @property
    def halves(self) -> bool:
        """Whether a cell can show two layers: it takes colours and a half block."""
        return self.depth.paints and bool(self.glyphs.upper_half)

    def cells(self, view: View, ground: Color, *, half: bool) -> list[tuple[str, Style]]:
        """Return the look of every cell index that `grid.cells` yields."""
        make = half_cells if half else row_cells
        return make(self.palette, self.glyphs, self.depth, view, ground)

    def bar(self, place: Place) -> tuple[str, str]:
        """Return glyph and colour of a place in bars, the colour in Textual's words, '' for none.

        Disk has the colour of muted text: bars must show what the atlas lets recede.
        """
        glyph = self.glyphs.meters[place]
        if place is Place.DISK:
            return glyph, "$text-muted"
        if self.depth.paints:
            return glyph, self.palette.of(View.TIER)[place].rgb
        return glyph, _ANSI_BARS.get(place, "") if self.depth is Depth.ANSI else ""
