"""The last tokens' ways through the layers: a ring of rows on the board, written once a token, read by a screen.

A row is written when its forward is over, and then counted in `Counter.ROUTED`: row `n` lies at `n % RING`. A reader
copies rows and looks at the count again: rows that were written over meanwhile are dropped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RING = 256
"""Tokens that are remembered."""
NOBODY = -1
"""In `ids`: fewer experts were chosen, or the layer has no router."""


class Part(IntEnum):
    """Indices into a row of `spent`: what a token's time went to."""

    READ = 0  # waiting for reads
    EXPERTS = 1
    ATTENTION = 2
    OTHER = 3  # dense products, head, sampling, everything else


class Routes(NamedTuple):
    """tokens int64 [RING, 2]: its number among the tokens generated (Counter.TOKENS), and its id.

    ids int16, gates float32, found uint8 [RING, layers, top_k]: who was chosen, in order of selection; the weights
    applied; the `Tier` they were found in when they were needed. layer_ms, wait_ms float32 [RING, layers]: time the
    layer took, and of it the wait for reads. spent float32 [RING, Part]: ms, of all the time since the token before.
    """

    tokens: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int16]
    gates: npt.NDArray[np.float32]
    found: npt.NDArray[np.uint8]
    layer_ms: npt.NDArray[np.float32]
    wait_ms: npt.NDArray[np.float32]
    spent: npt.NDArray[np.float32]


def arrays(layers: int, top_k: int) -> list[tuple[str, tuple[int, ...], type[np.generic]]]:
    """Return name, shape and type of every array of `Routes`, in order."""
    choice, layer = (RING, layers, top_k), (RING, layers)
    return [
        ("tokens", (RING, 2), np.int64),
        ("ids", choice, np.int16),
        ("gates", choice, np.float32),
        ("found", choice, np.uint8),
        ("layer_ms", layer, np.float32),
        ("wait_ms", layer, np.float32),
        ("spent", (RING, len(Part)), np.float32),
    ]
