"""auto: learns in every layer what tells best which experts are needed again.

How often an expert was lately used is measured at four time scales, from about one token to about a thousand; and how
often it was chosen right after what the last token chose. A *blend* of these ranks the experts. One blend looks at
the last token alone, which is LRU; another one at everything, which is nearly LFU; the others lie between. Which one
is right depends on the model, the layer, the cache's size and the topic: while a conversation stays with one kind of
text a long memory wins, when it jumps a short one does. The last ranking is *learned* while it runs: a regression that
foretells the next token's choice from those of the last two. So every one of them leads a *shadow*, a cache that holds
only names, and the one that lately missed least leads the real cache. A challenger must be better by HYSTERESIS.

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
from .state import (
    BEFORE,
    BIAS,
    BLENDS,
    LAST,
    LEADER,
    LEARNED,
    MISSES,
    NEXT,
    NORM,
    ORDER,
    RATE,
    SCALES,
    SHADOW,
    SLOPE,
    WIDTH,
    WIDTH_BEFORE,
    WORTH,
)

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
"""[BLENDS - 1, SCALES + 1]: how much each time scale counts in each blend, and what usually follows. The first blend
leads until there is evidence, the second one is LRU."""

GATE_BONUS = 0.5
"""A token's strongest choice counts half as much again as its weakest."""

MISS_KEEP = 0.5 ** (1 / 500)
"""Misses count half after 500 forwards."""

HYSTERESIS = 0.01

FOLLOWED_MAX = 1 << 10
"""An expert's counts of what followed are halved when it was followed so often."""

DOUBT = 0.5
"""What usually follows counts like so many observations of nothing but the longest time scale."""


SLOPES = (0.5, 1.0, 1.5, 0.5)
"""How much each time scale counts in the learned ranking at the beginning."""

STEP = 0.2
"""How far a token moves the learned ranking, divided by how many experts it chose; a tenth of that for SLOPES."""


@inner
def chosen(s: Any, ids: Any, held: Any) -> None:
    """A token chose `ids`."""
    lru.chosen(s, ids, held)
    _learn(s, ids)
    for scale in range(SCALES):
        keep, rates = KEEP[scale], s.values[RATE + scale]
        s.sums[NORM + scale] = s.sums[NORM + scale] * keep + 1.0 - keep
        for e in range(len(held)):
            rates[e] *= keep
        for i in range(len(ids)):
            rates[ids[i]] += (1.0 - keep) * (1.0 + GATE_BONUS * (len(ids) - 1 - i) / len(ids))
    _note_followers(s, ids)
    _predict(s)


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
    worth, learned = s.values[WORTH], s.values[LEARNED]
    if blend == BLENDS - 1:
        for e in range(len(worth)):  # compiling the assignment of an array takes seconds
            worth[e] = learned[e]
        return
    for e in range(len(worth)):
        worth[e] = 0.0
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
    before = s.cells[BEFORE]
    s.counts[WIDTH_BEFORE] = s.counts[WIDTH]
    for i in range(s.counts[WIDTH]):
        before[i] = last[i]
    s.counts[WIDTH] = len(ids)
    for i in range(len(ids)):
        last[i] = ids[i]


@inner
def _rate(s: Any, scale: int, e: int) -> float:
    """How often an expert was lately used at a time scale, beside the mean of all; what the learned ranking sees."""
    norm = s.sums[NORM + scale]
    return 2.0 * (s.values[RATE + scale, e] / norm - s.counts[WIDTH] / s.values.shape[1]) if norm > 0.0 else 0.0


@inner
def _learn(s: Any, ids: Any) -> None:
    """Compare what was expected of a token with `ids`, its choice, and move the learned ranking that way.

    A logistic regression by stochastic gradient, with a sigmoid that needs no exponential.
    """
    width = s.counts[WIDTH]
    if width == 0:
        for scale in range(SCALES):
            s.sums[SLOPE + scale] = SLOPES[scale]
        return
    expected, error, move = s.values[LEARNED], s.values[WORTH], STEP / width
    for e in range(len(expected)):
        error[e] = 0.5 + 0.5 * expected[e] / (1.0 + abs(expected[e]))
    for e in ids:
        error[e] -= 1.0
    for scale in range(SCALES):
        slope = 0.0
        for e in range(len(error)):
            slope += error[e] * _rate(s, scale, e)
        s.sums[SLOPE + scale] -= 0.1 * move * slope
    for e in range(len(error)):
        s.values[BIAS, e] -= move * error[e]
    for back in range(2):
        row, count = s.cells[BEFORE if back else LAST], s.counts[WIDTH_BEFORE if back else WIDTH]
        for i in range(count):
            weights = s.weights[row[i] + back * len(error)]
            step = move * (1.0 - 0.5 * i / count)
            for e in range(len(error)):
                weights[e] -= step * error[e]


@inner
def _predict(s: Any) -> None:
    """Write what is expected of the next token."""
    expected = s.values[LEARNED]
    for e in range(len(expected)):
        expected[e] = s.values[BIAS, e]
        for scale in range(SCALES):
            expected[e] += s.sums[SLOPE + scale] * _rate(s, scale, e)
    for back in range(2):
        row, count = s.cells[BEFORE if back else LAST], s.counts[WIDTH_BEFORE if back else WIDTH]
        for i in range(count):
            weights = s.weights[row[i] + back * len(expected)]
            share = 1.0 - 0.5 * i / count
            for e in range(len(expected)):
                expected[e] += share * weights[e]


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
