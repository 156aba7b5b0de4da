"""Pinned experts: which ones, and how many.

The history ranks all experts of all layers by how often they were chosen. The hottest are pinned: they are in memory
from the start, and the cache's policy has no say in them. Pins and cache share one budget, so pins are worth it only if
the history can be trusted: `pin_slots` holds back until there is enough of it, and leaves the cache a reserve.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

SELECTIONS_MIN = 5_000
"""`--pin auto` begins with that much history, ..."""

SELECTIONS_FULL = 200_000
"""... trusts it fully from here on, ..."""

AUTO_SHARE = 0.5
"""... and then takes this share of the slots."""

Expert = tuple[int, int]
"""(layer, expert)."""


def rank(counts: npt.NDArray[np.uint32], routed: tuple[int, ...]) -> list[Expert]:
    """All experts that were chosen at all, the most often chosen first, lower layers and numbers first on ties.

    counts: [layers, experts]. routed: the layers that have experts.
    """
    layers, experts = np.nonzero(counts)
    keep = np.isin(layers, routed)
    layers, experts = layers[keep], experts[keep]
    order = np.lexsort((experts, layers, -counts[layers, experts].astype(np.int64)))
    return [(int(layers[at]), int(experts[at])) for at in order]


def pin_slots(available: int, reserve: int, layers: int, selections: int | None, wanted: float | None) -> int:
    """How many of the `available` slots to give to pins, `reserve` of them being the cache's.

    selections: how many choices the history holds, or None if a person named it and it is trusted as it is. wanted: how
    many slots a person asked for (inf: all), None: by the rule. Fewer pins than one a layer (`layers`) are none at all.
    """
    if selections is not None and selections < SELECTIONS_MIN:
        return 0
    confidence = 1.0 if selections is None else min(1.0, selections / SELECTIONS_FULL)
    share = AUTO_SHARE * available * confidence if wanted is None else wanted
    pins = math.floor(min(share, available - reserve))
    return pins if pins >= layers else 0
