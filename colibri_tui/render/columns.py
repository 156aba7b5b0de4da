"""Columns of a chart on a fixed scale, and stacks of several parts, as rows of glyphs from the top down."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colibri_tui.render.bars import shares
from colibri_tui.render.glyphs import Glyphs

LEAST = 0.001
"""Stacks of less are nothing."""

Floats = npt.NDArray[np.float64]


def fit_columns(values: Floats, width: int) -> Floats:
    """Return at most `width` means of neighbouring values; NaN only where there is nothing else."""
    if len(values) <= width:
        return values
    starts = np.arange(width) * len(values) // width
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    means = np.full(width, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def columns(values: Floats, height: int, glyphs: Glyphs) -> list[str]:
    """Return the chart of values on the scale 0..1, one column each; NaN is an empty column.

    A value above zero is never drawn as nothing.
    """
    steps = 2 * height
    filled = np.nan_to_num(np.ceil(np.clip(values, 0, 1) * steps)).astype(int)
    return [
        "".join(_piece(count - 2 * (height - 1 - row), glyphs) for count in filled.tolist()) for row in range(height)
    ]


def _piece(halves: int, glyphs: Glyphs) -> str:
    return glyphs.bar if halves >= 2 else glyphs.bar_half if halves == 1 else " "


def stacks(parts: npt.NDArray[np.float32], top: float, halves: int) -> npt.NDArray[np.int8]:
    """Return which part fills each piece of stacked columns: int8 [halves, columns] from the bottom up, -1 = none.

    parts: [columns, parts], each at least 0; a column of the height `top` fills all pieces.
    """
    picture = np.full((halves, len(parts)), -1, np.int8)
    for column, values in enumerate(parts.tolist()):
        total = sum(values)
        if total < LEAST or top <= 0:
            continue
        filled = min(halves, max(round(total / top * halves), 1))
        pieces = shares([round(value / LEAST * 10) for value in values], filled)
        picture[: sum(pieces), column] = np.repeat(np.arange(len(pieces)), pieces)
    return picture
