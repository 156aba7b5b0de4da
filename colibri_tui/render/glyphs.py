"""Characters that carry what colour carries elsewhere: for 16 colours, NO_COLOR, plain ASCII, and all tiers.

Block elements of code page 437 only, because the Linux console has no others.
"""

from __future__ import annotations

from dataclasses import dataclass

from colibri_tui.render.shades import HEAT_LEVELS, SHADES, Shade


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character per shade, and those of bars. `upper_half` is empty where half blocks do not exist."""

    heat: str  # one per level
    unused: str
    disk: str
    cache: str
    pin: str
    fired: str
    upper_half: str
    bar: str
    bar_rest: str
    layer_rule: str
    dot: str

    def __post_init__(self) -> None:
        assert len(self.heat) == HEAT_LEVELS

    def of_shades(self) -> list[str]:
        """Return the glyph of every shade; BLANK and spare numbers are spaces."""
        table = [" "] * SHADES
        for level, glyph in enumerate(self.heat):
            table[Shade.HEAT + level] = glyph
        table[Shade.UNUSED] = self.unused
        table[Shade.DISK] = self.disk
        table[Shade.CACHE] = self.cache
        table[Shade.PIN] = self.pin
        table[Shade.FIRED] = table[Shade.FIRED_TIER] = self.fired
        return table


BLOCKS = Glyphs(
    heat="·░░▒▒▓▓█",
    unused="·",
    disk="░",
    cache="▓",
    pin="█",
    fired="■",
    upper_half="▀",
    bar="█",
    bar_rest="░",
    layer_rule="─",
    dot="·",
)
"""The usual set. Eight levels share five glyphs; the ramp is exact in colour and coarse without it."""

ASCII = Glyphs(
    heat=".:-=+*#@",
    unused=".",
    disk="-",
    cache="+",
    pin="#",
    fired="O",
    upper_half="",
    bar="#",
    bar_rest=".",
    layer_rule="-",
    dot="-",
)
"""For terminals and fonts that draw nothing else (`--ascii`, or a locale that is not UTF-8)."""
