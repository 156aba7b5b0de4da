"""What a policy remembers about one layer's experts."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

SCALES: Final = 4
"""Time scales at which `auto` measures how often an expert is used."""

BLENDS: Final = 9
"""Rankings that `auto` chooses from: blends of those scales, and the learned one."""

BACK: Final = 2
"""Tokens whose choices in a layer the learned ranking looks at: the last one and the one before."""

NEAR: Final = 3
"""Layers before it whose choices for the last token it looks at too."""

SOURCES: Final = BACK + NEAR

# Rows of `cells`
ORDER: Final = 0  # place in a sequence: of last use, or of arrival
USES: Final = 1
SEEN: Final = 2  # the clock at the last use, or another date
MARK: Final = 3
AMONG: Final = 4  # room for "who may leave"
LAST: Final = 5  # SOURCES rows, strongest first: what the last tokens chose here, then the last one in layers before
SHADOW: Final = LAST + SOURCES  # BLENDS rows: what a cache led by each blend would hold
CELLS: Final = SHADOW + BLENDS

# Rows of `values`
WORTH: Final = 0
RATE: Final = 1  # SCALES rows
NEXT: Final = RATE + SCALES  # how likely the next token chooses an expert, going by what this one chose
LEARNED: Final = NEXT + 1  # the learned ranking
BIAS: Final = LEARNED + 1  # its constant part
PLACE: Final = BIAS + 1  # where the last token's choice put an expert: 1 the strongest, 0 not chosen
ERROR: Final = PLACE + 1  # what was expected of a token less what it chose
TOLD: Final = ERROR + 1  # what the last tokens' choices told of the next one
OFTEN: Final = TOLD + 1  # uses, that fade at the longest time scale
ODDS: Final = OFTEN + 1  # the logarithm of the odds that a token uses an expert, going by OFTEN
VALUES: Final = ODDS + 1

# Cells of `counts`
CLOCK: Final = 0
TICKS: Final = 1  # sequence numbers given out
LEADER: Final = 2  # the blend in force
WIDTH: Final = 3  # SOURCES cells: how many experts each row of LAST names
COUNTS: Final = WIDTH + SOURCES

# Cells of `sums`
AGE: Final = 0
NORM: Final = 1  # SCALES cells
MISSES: Final = NORM + SCALES  # BLENDS cells: what each shadow lately missed
SLOPE: Final = MISSES + BLENDS  # SCALES + 2 cells: how much each time scale, PLACE and ODDS count when it is learned
TRUST: Final = SLOPE + SCALES + 2  # how much TOLD counts
TOKENS: Final = TRUST + 1  # tokens behind OFTEN
SUMS: Final = TOKENS + 1


class State(NamedTuple):
    """One policy's memory of one layer; all zero at the beginning. Every policy uses the few rows that it needs.

    cells: int64 [CELLS, experts]. values: float64 [VALUES, experts]. counts: int64 [COUNTS]. sums: float64 [SUMS].
    follows: uint16 [experts, experts + 1], how often a token that chose one expert was followed by one that chose
    another, and in the last column how often it was followed at all. weights:
    float32 [SOURCES * experts, experts], what the choice of one expert, in each row of LAST, tells about another. Both
    are [0, 0] for policies that do not use them.
    """

    cells: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    follows: npt.NDArray[np.uint16]
    weights: npt.NDArray[np.float32]


def zeros(experts: int, follows: bool) -> State:
    """Return an empty memory of a layer of `experts` experts, with or without `follows`."""
    return State(
        np.zeros((CELLS, experts), np.int64),
        np.zeros((VALUES, experts)),
        np.zeros(COUNTS, np.int64),
        np.zeros(SUMS),
        np.zeros((experts, experts + 1) if follows else (0, 0), np.uint16),
        np.zeros((SOURCES * experts, experts) if follows else (0, 0), np.float32),
    )
