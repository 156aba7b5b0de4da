"""One frame of the atlas as numbers, and the words around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri_tui.render import grid as g
from colibri_tui.render.bars import cells as bar_cells
from colibri_tui.render.grid import Grid
from colibri_tui.render.looks import Looks
from colibri_tui.render.shades import FIRED_PLACE, HEAT_LEVELS, SHADES, Difference, Heat, Place, View
from colibri_tui.telemetry import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """cells uint8 [rows, columns] index a `CellTable`; shares int16 [rows] are percent, -1 = not known.

    bars int8 [rows, 3]: cells of the row's hit bar that are pinned, cached, on disk.
    """

    cells: npt.NDArray[np.uint8]
    shares: npt.NDArray[np.int16]
    bars: npt.NDArray[np.int8]

    def changed_cells(self, before: Frame) -> npt.NDArray[np.bool_]:
        """Return which cells differ from an earlier frame of the same shape, [rows, columns]."""
        changed: npt.NDArray[np.bool_] = self.cells != before.cells
        return changed

    def changed_margins(self, before: Frame) -> npt.NDArray[np.bool_]:
        """Return at which rows the share or the hit bar differ from an earlier frame of the same shape, [rows]."""
        changed: npt.NDArray[np.bool_] = (self.shares != before.shares) | (self.bars != before.bars).any(axis=1)
        return changed


def draw(sample: Sample, grid: Grid, view: View, order: npt.NDArray[np.intp] | None, bar: int = 0) -> Frame:
    """Return the frame of a sample. order: expert ids [layers, experts] as columns run; None = by number.

    bar: columns of the hit bars.
    """
    heat, tier, fired = sample.heat, sample.tier, sample.fired
    if order is not None:
        heat = np.take_along_axis(heat, order, axis=1)
        tier = np.take_along_axis(tier, order, axis=1)
        fired = np.take_along_axis(fired, order, axis=1)
    if view is View.HEAT:
        shades = g.heat_shades(heat, tier, grid)
        g.fire_heat(shades, fired, grid)
    else:
        shades = g.tier_shades(heat, tier, grid)
        g.fire_places(shades, fired, grid)
    return Frame(g.cells(shades, grid), *_margins(sample, grid, bar))


def has_hits(sample: Sample) -> bool:
    """Whether experts were looked up in this turn; otherwise the margin tells what is in memory."""
    return bool(sample.found.any())


def _margins(sample: Sample, grid: Grid, bar: int) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8]]:
    """Return percentages and hit bars of the rows: of this turn's look-ups, or before any, the shares in memory."""
    bars = np.zeros((grid.rows, 3), np.int8)
    if not has_hits(sample):
        return _row_shares(sample.resident, grid), bars
    shares = np.full(grid.rows, -1, np.int16)
    sums = np.concatenate((np.zeros((1, 3), np.int64), np.cumsum(sample.found, axis=0)))
    spans = [grid.layers_of_row(row) for row in range(grid.rows)]
    found = sums[[span.stop for span in spans]] - sums[[span.start for span in spans]]
    total = found.sum(axis=1)
    known = total > 0
    shares[known] = 100 * found[known, :2].sum(axis=1) // total[known]
    for row in np.flatnonzero(known).tolist() if bar else ():
        bars[row] = bar_cells(found[row].tolist(), bar)
    return shares, bars


def _row_shares(resident: npt.NDArray[np.float64], grid: Grid) -> npt.NDArray[np.int16]:
    """Average the layers' in-memory shares over the layers of each row."""
    shares = np.full(grid.rows, -1, np.int16)
    for row in range(grid.rows):
        layers = grid.layers_of_row(row)
        known = resident[layers.start : layers.stop]
        known = known[~np.isnan(known)]
        if known.size:
            shares[row] = int(known.mean() * 100)
    return shares


def caption(grid: Grid, view: View, width: int, *, ranked: bool, dot: str) -> str:
    """Return one line that says what is drawn and how coarsely; what does not fit is left out."""
    parts = [
        f"{grid.layers} x {grid.experts} experts",
        view.value,
        "by use" if ranked else "by number",
    ]
    coarse = [
        f"{count} {what}"
        for count, what in (
            (_ratio(grid.experts, grid.columns), "experts"),
            (_ratio(grid.layers, grid.bands), "layers"),
        )
        if count
    ]
    if coarse:
        parts.append(f"a cell is {' of '.join(coarse)}")
    while len(words := f" {dot} ".join(parts)) > width and len(parts) > 1:
        parts.pop()
    return words[:width]


def _ratio(whole: int, parts: int) -> str:
    """Return how many of `whole` a part holds, '3' or '3-4'; '' when it is one."""
    if whole == parts:
        return ""
    least, most = whole // parts, -(-whole // parts)
    return str(least) if least == most else f"{least}-{most}"


@dataclass(frozen=True, slots=True)
class Swatch:
    """One entry of a legend: cells to show, by shade, and the words after them."""

    shades: tuple[int, ...]
    words: str


def legend(view: View) -> list[Swatch]:
    """Return what the shades of a view mean."""
    if view is View.DIFFERENCE:
        even = Difference.EVEN
        return [
            Swatch((), "more in A"),
            Swatch(tuple(range(even - 3, even)), "a little"),
            Swatch((even,), "even"),
            Swatch(tuple(range(even + 1, even + 4)), "more in B"),
        ]
    if view is View.HEAT:
        ramp = tuple(range(Heat.LEVEL, Heat.LEVEL + HEAT_LEVELS))
        fired = tuple(range(Heat.FIRED + 1, Heat.FIRED + HEAT_LEVELS))
        return [Swatch((), "never"), Swatch(ramp, "often"), Swatch(fired, "now")]
    fired = tuple(range(Place.PIN + FIRED_PLACE, Place.UNUSED + FIRED_PLACE, -1))
    return [
        Swatch((Place.PIN,), "pinned"),
        Swatch((Place.CACHE,), "cached"),
        Swatch((Place.DISK,), "on disk"),
        Swatch((Place.UNUSED,), "unused"),
        Swatch(fired, "now"),
    ]


def swatch_index(shade: int, grid: Grid) -> int:
    """Return the table index of a cell that shows one shade only."""
    return shade * SHADES + shade if grid.half else shade


def label_width(sample: Sample) -> int:
    """Return the columns that the largest layer number and a space take."""
    return len(str(max(sample.layers, default=0))) + 1


def fit(sample: Sample, looks: Looks, width: int, height: int) -> Grid | None:
    """Return the layout of a sample in a space, or None when there is nothing to lay out or no room."""
    layers, experts = sample.heat.shape
    if not layers or not experts or width < 1 or height < 1:
        return None
    return g.fit(layers, experts, width, height, halves=looks.halves)
