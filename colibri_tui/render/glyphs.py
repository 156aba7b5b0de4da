"""Characters that carry what colour carries elsewhere: for 16 colours, NO_COLOR, plain ASCII, and all tiers.

Block elements of code page 437 only, because the Linux console has no others; terminals that can do more draw bars as
lines, which are lighter to look at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from colibri_tui.render.shades import FIRED_PLACE, HEAT_LEVELS, SHADES, Heat, Place, View

DIFFERENCES = "  Aa'=,bB"
"""Shades of a difference, in letters: more in A, even, more in B."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character per shade, and those of bars. `upper_half` is empty where half blocks do not exist."""

    heat: str  # one per level
    places: str  # one per Place, BLANK first
    fired: str
    upper_half: str
    bar: str
    bar_half: str
    meter: str
    meter_rest: str
    meters: str  # one per Place, as a part of a bar
    dot: str
    rule: str
    arrow: str
    quotes: str  # the opening and the closing one

    def quoted(self, text: str) -> str:
        """Return text in quotation marks."""
        return f"{self.quotes[0]}{text}{self.quotes[1]}"

    def __post_init__(self) -> None:
        assert len(self.heat) == HEAT_LEVELS
        assert len(self.places) == len(self.meters) == len(Place)

    def of(self, view: View) -> list[str]:
        """Return the glyph of every shade of a view; spare numbers are spaces."""
        table = [" "] * SHADES
        if view is View.DIFFERENCE:
            table[: len(DIFFERENCES)] = DIFFERENCES
        elif view is View.HEAT:
            table[Heat.LEVEL : Heat.LEVEL + HEAT_LEVELS] = self.heat
            table[Heat.FIRED + 1 :] = self.fired * (HEAT_LEVELS - 1)
        else:
            table[: len(Place)] = self.places
            table[Place.UNUSED + FIRED_PLACE : Place.PIN + FIRED_PLACE + 1] = self.fired * (len(Place) - 1)
        return table


BLOCKS = Glyphs(
    heat="·░░▒▒▓▓█",
    places=" ·░▓█",
    fired="■",
    upper_half="▀",
    bar="█",
    bar_half="▄",
    meter="█",
    meter_rest="░",
    meters=" ·░▓█",
    dot="·",
    rule="─",
    arrow="→",
    quotes="“”",
)
"""Eight levels share five glyphs; the ramp is exact in colour and coarse without it."""

LINES = replace(BLOCKS, meter="━", meter_rest="─", meters="  ─━■")
"""The same where a terminal has more than code page 437: all with 256 colours or more."""

ASCII = Glyphs(
    heat=".:-=+*#@",
    places=" .-+#",
    fired="O",
    upper_half="",
    bar="#",
    bar_half=".",
    meter="#",
    meter_rest=".",
    meters=" .-+#",
    dot="-",
    rule="-",
    arrow="->",
    quotes='""',
)
"""For terminals and fonts that draw nothing else (`ascii` in the settings, or a locale that is not UTF-8)."""
