"""What the last tokens chose: a ring that native code writes, for questions about the running conversation.

A few thousand tokens are enough to tell what a cache of another size or policy would have done with them (see
`curve`), and take a few megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from .couplings import Rows
from .policies import NEAR, fill_near
from .trace_reader import LayerTrace, linked

ROOM = 4096
"""Rows kept of every layer."""

_IN_FLIGHT = 512
"""More rows than one forward has: what is about to be overwritten is not read."""


class RecentChoices:
    """The ring. ids: int32 [layers, ROOM * top_k], where a layer's rows are as wide as its tokens' choices.

    kept: int32 [layers, ROOM]. clock: uint32 [layers, ROOM], the forward's number. count: int64 [layers], rows ever
    noted. widths: int64 [layers], how wide a layer's rows are. `read` may be called from any thread.
    """

    def __init__(self, layers: int, top_k: int) -> None:
        self.ids = np.zeros((layers, ROOM * top_k), np.int32)
        self.kept = np.zeros((layers, ROOM), np.int32)
        self.clock = np.zeros((layers, ROOM), np.uint32)
        self.count = np.zeros(layers, np.int64)
        self.widths = np.full(layers, top_k, np.int64)

    def read(self, layers: Sequence[int], widths: Sequence[int], experts: int) -> dict[int, LayerTrace]:
        """Traces of these layers, which choose `widths` experts a token, of the forwards that all of them hold whole.

        One that was stopped, or is under way, has rows in some layers only. experts: how many a layer has.
        """
        held = {layer: self._held(layer) for layer in layers}
        whole = reduce(np.intersect1d, [_forwards(clock) for _, clock in held.values()]) // (ROOM + 1)
        return linked(
            {
                layer: self._layer(layer, width, experts, held[layer][0][np.isin(held[layer][1], whole)])
                for layer, width in zip(layers, widths, strict=True)
            }
        )

    def near(self, layer: int, rows: int) -> npt.NDArray[np.int32]:
        """What the last rows of a layer chose in the layers before it, while it is computed: see `policies.note`."""
        near = np.full((rows, NEAR, self.ids.shape[1] // ROOM), -1, np.int32)
        fill_near(self.ids, self.kept, self.clock, self.count, self.widths, layer, near)
        return near

    def since(self, layer: int, count: int) -> Rows:
        """The rows of a layer from row `count` on (of those ever noted) that are still there; between forwards only."""
        now, width = int(self.count[layer]), int(self.widths[layer])
        rows = np.arange(max(count if count <= now else 0, now - ROOM), now) % ROOM
        ids = self.ids[layer, : ROOM * width].reshape(ROOM, width)[rows]
        return Rows(ids, self.kept[layer, rows], self.clock[layer, rows])

    def _held(self, layer: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """Where the last rows of a layer lie that are not about to be overwritten, and their forwards' numbers."""
        count = int(self.count[layer])
        rows = np.arange(count - min(count, ROOM - _IN_FLIGHT), count) % ROOM
        return rows, self.clock[layer, rows]

    def _layer(self, layer: int, width: int, experts: int, rows: npt.NDArray[np.int64]) -> LayerTrace:
        kept, clock = self.kept[layer, rows], self.clock[layer, rows]
        ids = self.ids[layer, : ROOM * width].reshape(ROOM, width)[rows]
        starts = np.flatnonzero(np.diff(clock.astype(np.int64), prepend=-1))
        return LayerTrace(
            experts,
            np.append(starts, len(rows)),
            np.concatenate(([0], np.cumsum(kept, dtype=np.int64))),
            ids[np.arange(width) < kept[:, None]],
        )


def _forwards(clock: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """The forwards some rows belong to, each as number * (ROOM + 1) + rows."""
    numbers, rows = np.unique(clock, return_counts=True)
    return numbers.astype(np.int64) * (ROOM + 1) + rows


def recent_bytes(layers: int, top_k: int) -> int:
    """Bytes of a ring."""
    return layers * (ROOM * (top_k + 2) * 4 + 8)
