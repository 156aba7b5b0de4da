"""What tokens chose in the layers before, for the policy that learns from it."""

from __future__ import annotations

from typing import Any

from numba import njit

from ... import kernels as _kernels  # noqa: F401 - decides where compiled code is kept, before any is defined


@njit(cache=True, nogil=True)
def fill_near(ids: Any, kept: Any, clock: Any, count: Any, widths: Any, layer: int, near: Any) -> None:
    """Write what the last rows of a layer chose in the layers before it, the next one last, into `near`.

    near: int32 [rows, NEAR, k], all -1. The others are the arrays of `recent.RecentChoices`. A forward that was stopped
    left rows in the first layers alone, so rows are told by their clocks; those of one forward come in one order.
    """
    rows, room, place, other = len(near), kept.shape[1], near.shape[1] - 1, layer - 1
    while place >= 0 and other >= 0:
        if count[other] > 0:
            at, oldest = count[other] - 1, max(0, count[other] - room)
            for back in range(rows):
                mine = clock[layer, (count[layer] - 1 - back) % room]
                while at >= oldest and clock[other, at % room] > mine:
                    at -= 1
                if at >= oldest and clock[other, at % room] == mine:
                    for i in range(kept[other, at % room]):
                        near[rows - 1 - back, place, i] = ids[other, at % room * widths[other] + i]
                    at -= 1
            place -= 1
        other -= 1
