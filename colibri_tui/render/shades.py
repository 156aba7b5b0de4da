"""What one piece of the atlas shows, as a small number: the alphabet between telemetry and painting.

An array of shades is cheap to compute, to compare with the last frame, and to look up in a prebuilt table of
segments. Sixteen values, so that two of them (the upper and the lower half of a cell) fit into one byte.
"""

from __future__ import annotations

from enum import IntEnum

HEAT_LEVELS = 8
"""Levels of the heat ramp: level 0 is "never chosen", level 7 the most chosen."""


class Shade(IntEnum):
    """One piece of the atlas. HEAT + level is a level of the heat ramp, level 0..7."""

    BLANK = 0  # no expert here
    HEAT = 1
    UNUSED = 9  # tier view: on disk and never chosen
    DISK = 10
    CACHE = 11
    PIN = 12
    FIRED = 13  # heat view: chosen by the current token
    FIRED_TIER = 14  # tier view: the same


SHADES = 16
"""Size of a table indexed by shade."""
