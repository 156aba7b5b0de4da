"""How layers x experts are laid out on columns x rows, and what each piece of the picture then shows.

A *band* is one or more layers drawn as one line of pieces; where the terminal has half blocks and the
height is short, two bands share a row of cells. A *bin* is one or more neighbouring experts drawn as one
piece. Bins and bands may differ in size by one, so that the picture fills its space; they show the mean
use of their experts. A maximum would light up nearly every bin of a large model soon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri_tui.render.shades import FIRED_PLACE, HEAT_LEVELS, SHADES, Difference, Heat, Place
from engine.board import Tier

MAX_REPEAT = 6
"""Widest piece, in columns: models with few experts should not turn into stripes."""
MAX_STRETCH = 3
"""Tallest band, in rows."""
COOL_TOP = 32.0
"""The ramp's top is never below this many uses, so that a young profile looks young."""
LEAST_SPAN = 4.0
"""The ramp spans at least this factor: small differences are not blown up to the whole ramp."""
TAIL = 0.05
"""The ramp runs between the pieces that this share of the others is below and above: a few do not stretch it."""

Shades = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Grid:
    """A layout: `bands` x `columns` pieces, each `repeat` screen columns wide; `rows` are terminal rows.

    stretch: rows a band takes when there are no halves.
    """

    layers: int
    experts: int
    columns: int
    repeat: int
    bands: int
    stretch: int
    half: bool
    rows: int

    @property
    def width(self) -> int:
        """Screen columns of the picture."""
        return self.columns * self.repeat

    @property
    def bin_starts(self) -> npt.NDArray[np.intp]:
        """First expert of every bin."""
        return np.arange(self.columns) * self.experts // self.columns

    @property
    def band_starts(self) -> npt.NDArray[np.intp]:
        """First layer of every band."""
        return np.arange(self.bands) * self.layers // self.bands

    def layers_of_row(self, row: int) -> range:
        """Return the layers (indices into the layers shown) that a terminal row shows."""
        first = row * 2 if self.half else row // self.stretch
        last = min(first + (2 if self.half else 1), self.bands)
        return range(first * self.layers // self.bands, last * self.layers // self.bands)

    def cell_of(self, layer: int, position: int) -> tuple[int, int]:
        """Return (row, column of pieces) of the expert at a position in its layer."""
        band = int(np.searchsorted(self.band_starts, layer, side="right")) - 1
        column = int(np.searchsorted(self.bin_starts, position, side="right")) - 1
        return (band // 2 if self.half else band * self.stretch), column

    def at(self, row: int, column: int) -> tuple[int, int]:
        """Return (layer, position) of the first expert that a cell shows."""
        return self.layers_of_row(row).start, int(self.bin_starts[column])


def fit(layers: int, experts: int, width: int, height: int, *, halves: bool) -> Grid:
    """Return the finest layout of `layers` x `experts` in width x height cells, all at least 1.

    halves: whether two bands may share a row.
    """
    columns = min(experts, width)
    repeat = min(width // columns, MAX_REPEAT)
    if layers <= height:
        stretch = min(height // layers, MAX_STRETCH)
        return Grid(layers, experts, columns, repeat, layers, stretch, False, layers * stretch)
    bands = min(layers, height * 2 if halves else height)
    return Grid(layers, experts, columns, repeat, bands, 1, halves, -(-bands // 2) if halves else bands)


def _fold(values: npt.NDArray[np.int64], grid: Grid) -> npt.NDArray[np.int64]:
    """Sum [layers, experts] into [bands, columns]."""
    if grid.columns < grid.experts:
        values = np.add.reduceat(values, grid.bin_starts, axis=1)
    if grid.bands < grid.layers:
        values = np.add.reduceat(values, grid.band_starts, axis=0)
    return values


def heat_levels(uses: npt.NDArray[np.float64]) -> Shades:
    """Map uses to levels 0..HEAT_LEVELS-1 on a log scale from rarely to often used; 0 only for none.

    Pieces that are used much alike get the middle of the ramp, neither its dark end nor its bright one.
    """
    used = uses > 0
    if not used.any():
        return np.zeros(uses.shape, np.uint8)
    low, top = _ends(uses[used])
    steps = np.geomspace(low, top, HEAT_LEVELS)[1:-1]
    levels = used.astype(np.uint8)
    for step in steps:  # so few that comparing is faster than searching
        levels += uses >= step
    return levels


def _ends(uses: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the uses at the ends of the ramp."""
    tail = int(len(uses) * TAIL)
    uses = np.partition(uses, (tail, len(uses) - 1 - tail))
    low, top = float(uses[tail]), float(uses[len(uses) - 1 - tail])
    widen = max(1.0, (LEAST_SPAN * low / top) ** 0.5)
    low, top = low / widen, top * widen
    return (low, top) if top >= COOL_TOP else (min(low, COOL_TOP / LEAST_SPAN), COOL_TOP)


def heat_shades(heat: npt.NDArray[np.uint32], tier: npt.NDArray[np.uint8], grid: Grid) -> Shades:
    """Return shades [bands, columns] of the heat view; heat and tier are [layers, experts]."""
    members = _fold((tier != Tier.NONE).astype(np.int64), grid)
    uses = _fold(heat.astype(np.int64), grid) / np.maximum(members, 1)
    shades = heat_levels(uses) + np.uint8(Heat.LEVEL)
    shades[members == 0] = Heat.BLANK
    return shades


def tier_shades(heat: npt.NDArray[np.uint32], tier: npt.NDArray[np.uint8], grid: Grid) -> Shades:
    """Return shades [bands, columns] of the tier view: the tier most experts of the piece lie in.

    Of equal numbers the faster tier wins. An expert in a working slot is in memory, so it counts as cached.
    """
    pinned = _fold((tier == Tier.PIN).astype(np.int64), grid)
    cached = _fold(((tier == Tier.CACHE) | (tier == Tier.WORKING)).astype(np.int64), grid)
    on_disk = _fold((tier == Tier.DISK).astype(np.int64), grid)
    used = _fold(heat.astype(np.int64), grid) > 0
    shades = np.where(used, np.uint8(Place.DISK), np.uint8(Place.UNUSED))
    shades[(cached > 0) & (cached >= on_disk)] = Place.CACHE
    shades[(pinned > 0) & (pinned >= cached) & (pinned >= on_disk)] = Place.PIN
    shades[pinned + cached + on_disk == 0] = Place.BLANK
    return shades


def difference_shades(a: npt.NDArray[np.uint32], b: npt.NDArray[np.uint32], grid: Grid) -> Shades:
    """Return shades [bands, columns] of how much more one profile uses a piece than another; a, b [layers, experts].

    Compared are shares of a layer's uses, each with one use added to every expert, as powers of two.
    """
    uses = _fold((a.astype(np.int64) + b), grid)
    parts = [_fold((_share(counts) * _SHARE_SCALE).astype(np.int64), grid) + 1 for counts in (a, b)]
    ratio = np.log2(parts[1] / parts[0])
    steps = np.digitize(np.abs(ratio), DIFFERENCE_STEPS) * np.sign(ratio).astype(np.int64)
    shades = (int(Difference.EVEN) + steps).astype(np.uint8)
    shades[uses == 0] = Difference.UNUSED
    return shades


_SHARE_SCALE = 1e9
DIFFERENCE_STEPS = (0.5, 1.5, 3.0)
"""Powers of two from which a piece is used a little, clearly, far more in one profile."""


def _share(counts: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    more = counts.astype(np.float64) + 1
    shares: npt.NDArray[np.float64] = more / more.sum(axis=1, keepdims=True)
    return shares


def _fires(shades: Shades, fired: npt.NDArray[np.bool_], grid: Grid) -> npt.NDArray[np.bool_]:
    """Return the pieces [bands, columns] in which experts of `fired` [layers, experts] lie, and no fewer than usual.

    A coarse map would be alight everywhere if any expert were enough.
    """
    count = _fold(fired.astype(np.int64), grid)
    where: npt.NDArray[np.bool_] = (count >= max(1.0, count.mean())) & (shades > 0)
    return where


def fire_heat(shades: Shades, fired: npt.NDArray[np.bool_], grid: Grid) -> None:
    """Mark in place the pieces of the heat view that fire; they keep their level."""
    where = _fires(shades, fired, grid)
    # An expert may fire a moment before its count says so.
    shades[where] = np.maximum(shades[where], Heat.LEVEL + 1) + np.uint8(Heat.FIRED - Heat.LEVEL)


def fire_places(shades: Shades, fired: npt.NDArray[np.bool_], grid: Grid) -> None:
    """Mark in place the pieces of the tier view that fire."""
    shades[_fires(shades, fired, grid)] += np.uint8(FIRED_PLACE)


def cells(shades: Shades, grid: Grid) -> npt.NDArray[np.uint8]:
    """Return the table index per cell [rows, columns]: a shade, or with halves upper * SHADES + lower."""
    if not grid.half:
        return np.repeat(shades, grid.stretch, axis=0)
    upper, lower = shades[0::2], shades[1::2]
    if len(lower) < len(upper):
        lower = np.vstack([lower, np.zeros((1, grid.columns), np.uint8)])
    return upper * np.uint8(SHADES) + lower


def rank_order(heat: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return expert ids [layers, experts] from most to least used, equals by id."""
    return np.argsort(-heat.astype(np.int64), axis=1, kind="stable")
