"""How a layer's share of a conversation lies in memory, in terms that copying and saving need no mixer for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..kernels.records import KEY_TILE
from .spec import MOST_ROWS

Bytes = npt.NDArray[np.uint8]

WINDOW_MARKS = 2
"""Copies of the windows that are kept to go back to: from before the last prompt, and from near its end."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Cache addressed by position: for each of `heads`, `length` rows of `row_bytes`; a row holds `unit` tokens.

    behind: what comes next looks back on so many tokens, None: on all. Where the length is less than the context, the
    strip is a ring: the token at position p lies in row p modulo length.
    """

    heads: int
    length: int
    row_bytes: int
    unit: int = 1
    behind: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the strip."""
        return self.heads * self.length * self.row_bytes

    def is_ring(self, capacity: int) -> bool:
        """Whether it holds less than a context of so many tokens."""
        return self.behind is not None and self.length < capacity

    def rows(self, tokens: int) -> npt.NDArray[np.int64]:
        """The rows that a conversation of so many tokens needs to go on, in order of position."""
        if self.behind is None:
            return np.arange(-(-tokens // self.unit))
        return np.arange(max(0, tokens - self.behind), tokens) % self.length

    def pieces(self, view: Bytes, tokens: int) -> Iterator[Bytes]:
        """Those rows of each head, as views without gaps into `view`, the strip's bytes [heads, length, row_bytes]."""
        rows = self.rows(tokens)
        for head in view:
            for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
                if len(run):
                    yield head[run[0] : run[-1] + 1]


def ring_length(capacity: int, behind: int | None) -> int:
    """Rows kept of a conversation of up to `capacity` tokens, each of which looks back on `behind` others.

    What the first row of a forward looks back on, and the forward's own rows; in whole tiles, so that attention finds
    each in one piece. The whole context where that, with the copies to go back to, is no more.
    """
    if behind is None:
        return capacity
    ring = -(-(behind + MOST_ROWS) // KEY_TILE) * KEY_TILE
    return ring if ring + WINDOW_MARKS * behind < capacity else capacity


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One layer's share: where it lies, for how many tokens, in which number format.

    scratch: address of the memory that mixers share while they compute.
    """

    address: int
    capacity: int
    fmt: int
    scratch: int
