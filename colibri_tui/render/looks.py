"""How the atlas and the bars are drawn here and now: colours, glyphs, depth of the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.color import Color, ColorSystem
from rich.style import Style

from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.ramps import Depth, Palette, half_cells, row_cells
from colibri_tui.render.shades import Shade

_SYSTEMS = {
    Depth.TRUECOLOR: ColorSystem.TRUECOLOR,
    Depth.XTERM: ColorSystem.EIGHT_BIT,
    Depth.ANSI: ColorSystem.STANDARD,
    Depth.MONO: ColorSystem.STANDARD,
}

_ANSI_TIERS = {Shade.PIN: "ansi_yellow", Shade.CACHE: "ansi_cyan"}


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

    def cells(self, ground: Color, *, half: bool) -> list[tuple[str, Style]]:
        """Return the look of every cell index that `grid.cells` yields."""
        make = half_cells if half else row_cells
        return make(self.palette, self.glyphs, self.depth, ground)

    def tier(self, shade: Shade) -> tuple[str, str]:
        """Return glyph and colour of a tier, the colour in Textual's words, '' for none."""
        glyph = self.glyphs.of_shades()[shade]
        if self.depth.paints:
            return glyph, self.palette.of_shades()[shade].rgb
        return glyph, _ANSI_TIERS.get(shade, "") if self.depth is Depth.ANSI else ""
