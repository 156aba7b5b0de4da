"""What one piece of the atlas shows, as a small number: the alphabet between telemetry and painting.

An array of shades is cheap to compute, to compare with the last frame, and to look up in a prebuilt table of
segments. Each view has at most sixteen, so that two of them (the upper and the lower half of a cell) fit into a byte.
"""

from __future__ import annotations

from enum import Enum, IntEnum

HEAT_LEVELS = 8
"""Levels of the heat ramp: level 0 is "never chosen", level 7 the most chosen."""
SHADES = 16
"""Size of a table indexed by shade."""


class View(Enum):
    """What the colour of a piece means."""

    HEAT = "heat"
    TIER = "tiers"
    DIFFERENCE = "difference"


class Heat(IntEnum):
    """Shades of the heat view."""

    BLANK = 0  # no expert here
    LEVEL = 1  # + level
    FIRED = 8  # + level, from 1 on: what fires was chosen at least once


class Place(IntEnum):
    """Shades of the tier view."""

    BLANK = 0
    UNUSED = 1  # on disk and never chosen
    DISK = 2
    CACHE = 3
    PIN = 4


FIRED_PLACE = 4
"""Added to a `Place` other than BLANK: the same, and chosen by the current token."""


class Difference(IntEnum):
    """Shades of the difference of two profiles."""

    BLANK = 0
    UNUSED = 1  # in neither
    EVEN = 5  # - 1..3: more in the first, + 1..3: more in the second
