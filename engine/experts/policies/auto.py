"""auto: learns in every layer what tells best which experts are needed again.

How often an expert was lately used is measured at four time scales, from about one token to about a thousand; and how
often it was chosen right after what the last token chose. A *blend* of these ranks the experts. One blend looks at
the last token alone, which is LRU; another one at everything, which is nearly LFU; the others lie between. Which one
is right depends on the model, the layer, the cache's size and the topic: while a conversation stays with one kind of
text a long memory wins, when it jumps a short one does. So every blend leads a *shadow*, a cache that holds only
names, and the one that lately missed least leads the real cache. A challenger must be better by HYSTERESIS.

Since LRU is one of the blends, this is never worse than LRU by more than it takes to notice. On recorded conversations
it wins more of the way from LRU to the optimum than any other policy here, at every size of the cache.
(The rates are those of LRFU: Lee et al., "LRFU: a spectrum of policies that subsumes the LRU and LFU policies", 2001.
Shadows that decide: Qureshi et al., "Adaptive insertion policies for high performance caching", 2007.)
"""

from __future__ import annotations

from typing import Any

from ...kernels.compiled import inner
from . import lru
from .ranking import least_of
from .state import BLENDS, LAST, LEADER, MISSES, NEXT, NORM, ORDER, RATE, SCALES, SHADOW, WIDTH, WORTH

KEEP = (0.3, 0.9, 0.99, 0.999)
"""What is left of a use after one more token, at each time scale."""

MIX = (
    (1.0, 2.0, 4.0, 0.0, 1.0),
    (1.0, 0.0, 0.0, 0.0, 0.0),
    (2.0, 2.0, 1.0, 0.0, 0.0),
    (2.0, 2.0, 1.0, 0.0, 2.0),
    (1.0, 2.0, 4.0, 0.0, 6.0),
    (1.0, 1.0, 2.0, 8.0, 2.0),
    (1.0, 1.0, 2.0, 8.0, 8.0),
    (0.0, 1.0, 1.0, 16.0, 2.0),
)
"""[BLENDS, SCALES + 1]: how much each time scale counts in each blend, and what usually follows. The first blend leads
until there is evidence, the second one is LRU."""

GATE_BONUS = 0.5
"""A token's strongest choice counts half as much again as its weakest."""

MISS_KEEP = 0.5 ** (1 / 500)
"""Misses count half after 500 forwards."""

HYSTERESIS = 0.01

FOLLOWED_MAX = 1 << 10
"""An expert's counts of what followed are halved when it was followed so often."""

DOUBT = 0.5
"""What usually follows counts like so many observations of nothing but the longest time scale."""


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    lru.chosen(s, ids, held)
    for scale in range(SCALES):
        keep, rates = KEEP[scale], s.values[RATE + scale]
        s.sums[NORM + scale] = s.sums[NORM + scale] * keep + 1.0 - keep
        for e in range(len(held)):
            rates[e] *= keep
        for i in range(len(ids)):
            rates[ids[i]] += (1.0 - keep) * (1.0 + GATE_BONUS * (len(ids) - 1 - i) / len(ids))
    _note_followers(s, ids)


@inner
def decide(s: Any, needed: Any, pinned: Any, cap: int) -> None:
    """A forward needed some experts: let the shadows have them too, see who leads, and rank the experts.

    Pinned experts are no business of a cache.
    """
    _foresee(s)
    leader = s.counts[LEADER]
    best = leader
    for blend in range(BLENDS):
        s.sums[MISSES + blend] *= MISS_KEEP
        _follow(s, blend, needed, pinned, cap)
        if s.sums[MISSES + blend] < s.sums[MISSES + best]:
            best = blend
    if s.sums[MISSES + best] < s.sums[MISSES + leader] * (1.0 - HYSTERESIS):
        s.counts[LEADER] = leader = best
    _rank(s, leader)


@inner
def victim(s: Any, among: Any) -> int:
    """Who goes first."""
    return least_of(s.values[WORTH], s.cells[ORDER], among)


@inner
def _follow(s: Any, blend: int, needed: Any, pinned: Any, cap: int) -> None:
    """Bring a blend's shadow up to date and count what it missed."""
    shadow = s.cells[SHADOW + blend]
    held = 0
    for e in range(len(needed)):
        if pinned[e]:
            shadow[e] = 0
        elif needed[e] and not shadow[e]:
            s.sums[MISSES + blend] += 1.0
            shadow[e] = 1
        held += shadow[e]
    if held > cap:
        _rank(s, blend)
        for _ in range(held - cap):
            shadow[victim(s, shadow)] = 0


@inner
def _rank(s: Any, blend: int) -> None:
    """Write how much every expert is worth to a blend."""
    worth = s.values[WORTH]
    worth[:] = 0.0
    for scale in range(SCALES):
        if MIX[blend][scale] > 0.0 and s.sums[NORM + scale] > 0.0:
            share, rates = MIX[blend][scale] / s.sums[NORM + scale], s.values[RATE + scale]
            for e in range(len(worth)):
                worth[e] += share * rates[e]
    share, coming = MIX[blend][SCALES], s.values[NEXT]
    if share > 0.0:
        for e in range(len(worth)):
            worth[e] += share * coming[e]


@inner
def _note_followers(s: Any, ids: Any) -> None:
    """Count that `ids` followed what the last token chose; they are the last token's now."""
    last, followed = s.cells[LAST], s.follows.shape[1] - 1
    for i in range(s.counts[WIDTH]):
        row = s.follows[last[i]]
        if row[followed] == FOLLOWED_MAX:
            for e in range(len(row)):
                row[e] >>= 1
        row[followed] += 1
        for e in ids:
            row[e] += 1
    s.counts[WIDTH] = len(ids)
    for i in range(len(ids)):
        last[i] = ids[i]


@inner
def _foresee(s: Any) -> None:
    """Write how likely the next token chooses each expert, going by what followed this one's choice before."""
    coming, usual, followed = s.values[NEXT], s.values[RATE + SCALES - 1], s.follows.shape[1] - 1
    coming[:] = 0.0
    width, norm = s.counts[WIDTH], s.sums[NORM + SCALES - 1]
    for i in range(width):
        row = s.follows[s.cells[LAST, i]]
        share = 1.0 / (width * (row[followed] + DOUBT))
        for e in range(len(coming)):
            coming[e] += share * (row[e] + DOUBT * usual[e] / norm)
