"""Who usually follows the experts that a layer chose, as tables that native code reads (see kernels.ops_routing).

A naive Bayes estimate. With n chosen experts, how likely the next layer chooses f is judged by

    log P(f) + sum over the chosen e of log (P(f | e) / P(f))

P(f | e) comes from the counts of `.coli_pairs`, and from P(f) as if PRIOR pairs more had been counted: a few tokens
prove nothing. The file lists FOLLOWERS of an expert; the others are taken to follow as often as the last one listed.
What that says of f is nearly the same whoever was chosen, so its mean, `rest`, is taken for all, and `weights` say how
much more those speak for f that list it. The sum of plain counts, without P(f), hardly tells more than who is used
most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .couplings import FOLLOWERS, Couplings

PRIOR = 1000.0
"""A token counts as many pairs as it chooses experts in both layers: 64, 256."""


class PairGuesses:
    """ids int32, weights float32 [layers, experts, FOLLOWERS], ids -1 where there is none.

    base, rest: float32 [layers, experts], of the next layer's experts. known: int32 [layers], whether any pair
    is known.

    `update` between forwards only.
    """

    def __init__(self, layers: int, experts: int) -> None:
        self.ids = np.full((layers, experts, FOLLOWERS), -1, np.int32)
        self.weights = np.zeros((layers, experts, FOLLOWERS), np.float32)
        self.base = np.zeros((layers, experts), np.float32)
        self.rest = np.zeros((layers, experts), np.float32)
        self.known = np.zeros(layers, np.int32)

    def update(self, couplings: Couplings, routed: Sequence[int], experts: Sequence[int]) -> None:
        """Go by these counts. routed: the layers that have a router, in order; experts: how many each has."""
        self.known[:] = 0
        pairs = zip(routed, routed[1:], experts[1:], strict=False)
        for layer, after, count in pairs:
            if after - layer <= couplings.ids.shape[1]:
                self._update(couplings, layer, after - layer, count)

    def _update(self, couplings: Couplings, layer: int, distance: int, experts: int) -> None:
        ids = couplings.ids[layer, distance - 1, :, :FOLLOWERS].astype(np.int32)
        counts = couplings.counts[layer, distance - 1, :, :FOLLOWERS].astype(np.float64)
        listed = (ids >= 0) & (ids < experts)
        if not listed.any():
            return
        number = np.count_nonzero(listed, axis=1, keepdims=True)
        least = np.where(number == FOLLOWERS, counts[:, -1:], 0.0)  # how often each of the others follows, at most
        total = np.where(listed, counts, 0.0).sum(axis=1, keepdims=True) + (experts - number) * least
        often = np.full(experts, least.sum() + 0.5)
        np.add.at(often, ids[listed], (counts - least)[listed])
        likely = often / often.sum()
        rest = np.log((least / likely + PRIOR) / (total + PRIOR))
        rest = (total * rest).sum(axis=0) / total.sum()
        there = np.where(listed, ids, 0)
        weights = np.log((counts / likely[there] + PRIOR) / (total + PRIOR)) - rest[there]
        width = ids.shape[1]
        self.ids[layer, :, :width] = np.where(listed, ids, -1)
        self.weights[layer, :, :width] = np.where(listed, weights, 0.0)
        self.base[layer, :experts], self.rest[layer, :experts] = np.log(likely), rest
        self.known[layer] = 1


def guesses_bytes(layers: int, experts: int) -> int:
    """Bytes of `PairGuesses`."""
    return layers * (experts * (FOLLOWERS * 8 + 8) + 4)
