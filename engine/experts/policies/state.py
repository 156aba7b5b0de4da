"""What a policy remembers about one layer's experts."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

SCALES: Final = 4
"""Time scales at which `auto` measures how often an expert is used."""

BLENDS: Final = 6
"""Blends of those scales that `auto` chooses from."""

# Rows of `cells`
ORDER: Final = 0  # place in a sequence: of last use, or of arrival
USES: Final = 1
SEEN: Final = 2  # the clock at the last use, or another date
MARK: Final = 3
AMONG: Final = 4  # room for "who may leave"
SHADOW: Final = 5  # BLENDS rows: what a cache led by each blend would hold
CELLS: Final = SHADOW + BLENDS

# Rows of `values`
WORTH: Final = 0
RATE: Final = 1  # SCALES rows
VALUES: Final = RATE + SCALES

# Cells of `counts`
CLOCK: Final = 0
TICKS: Final = 1  # sequence numbers given out
LEADER: Final = 2  # the blend in force
COUNTS: Final = 3

# Cells of `sums`
AGE: Final = 0
NORM: Final = 1  # SCALES cells
MISSES: Final = NORM + SCALES  # BLENDS cells: what each shadow lately missed
SUMS: Final = MISSES + BLENDS


class State(NamedTuple):
    """One policy's memory of one layer; all zero at the beginning. Every policy uses the few rows that it needs.

    cells: int64 [CELLS, experts]. values: float64 [VALUES, experts]. counts: int64 [COUNTS]. sums: float64 [SUMS].
    """

    cells: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]


def make_state(experts: int) -> State:
    """Return the memory of a policy that has seen nothing of a layer of `experts` experts."""
    return State(
        np.zeros((CELLS, experts), np.int64), np.zeros((VALUES, experts)), np.zeros(COUNTS, np.int64), np.zeros(SUMS)
    )
