"""auto: learns in every layer what tells best which experts are needed again.

The best ranking of experts is *learned* while it runs: a logistic regression that foretells the next token's choice.
What it goes by: how often an expert was lately used at four time scales, from about one token to about a thousand, and
how high it stood in the last token's choice (few numbers to learn, the same for all experts); and who was chosen by
the last two tokens in this layer, and by the last one in the three layers before (a weight for each pair of experts).
Layers before tell more about the next token than this one's own past, because they saw the same token, differently.

Where nothing can be learned, a plain ranking is better. So others are kept beside it: *blends* of the time scales, and
of how often an expert was chosen right after what the last token chose. One blend looks at the last token alone, which
is LRU; another one at everything, which is nearly LFU; the others lie between. Every one of them leads a *shadow*, a
cache that holds only names, and the one that lately missed least leads the real cache. A challenger must be better by
HYSTERESIS; the learned ranking is forgiven a little more (FAVOUR).

Since LRU is one of the blends, this is never worse than LRU by more than that and what it takes to notice. On recorded
conversations it wins more of the way from LRU to the optimum than any other policy here, at every size of the cache.
(The rates are those of LRFU: Lee et al., "LRFU: a spectrum of policies that subsumes the LRU and LFU policies", 2001.
Shadows that decide: Qureshi et al., "Adaptive insertion policies for high performance caching", 2007.)
"""

from __future__ import annotations

import math
from typing import Any

from ...kernels.compiled import inner
from . import lru
from .ranking import least_of
from .state import (
    BACK,
    BIAS,
    BLENDS,
    ERROR,
    LAST,
    LEADER,
    LEARNED,
    MISSES,
    NEAR,
    NEXT,
    NORM,
    ODDS,
    OFTEN,
    ORDER,
    PLACE,
    RATE,
    SCALES,
    SHADOW,
    SLOPE,
    SOURCES,
    TOKENS,
    TOLD,
    TRUST,
    WIDTH,
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
"""[BLENDS - 1, SCALES + 1]: how much each time scale counts in each blend, and what usually follows. The second blend
is LRU; the learned ranking, which comes last, leads until there is evidence."""

GATE_BONUS = 0.5
"""A token's strongest choice counts half as much again as its weakest."""

MISS_KEEP = 0.5 ** (1 / 500)
"""Misses count half after 500 forwards."""

HYSTERESIS = 0.01

FAVOUR = 0.04
"""The learned ranking may miss so much more than the best of the others: it improves, they do not."""

FOLLOWED_MAX = 1 << 10
"""An expert's counts of what followed are halved when it was followed so often."""

DOUBT = 0.5
"""What usually follows counts like so many observations of nothing but the longest time scale."""


SLOPES = (0.35, 0.49, 0.35, 0.0, 1.2, 1.0)
"""How much each time scale, the place in the last token's choice, and the odds count in the learned ranking at the
beginning."""

FEATURES = len(SLOPES)

UNPROVEN = 4.0
"""The odds are those of so many tokens more, which chose everyone alike."""

STEP = 0.3
"""How far a token moves the learned ranking, divided by how many experts it chose."""

SLOPE_STEP = 0.1
BIAS_STEP = 0.1
"""How fast SLOPES and the constant part move beside the weights."""

TRUST_STEP = 0.1
"""How fast it is learned whether the weights are to be trusted, as a whole."""

TRUST_LEAST, TRUST_MOST = 0.1, 1.5

FADE = 0.003
"""What a weight loses whenever it is used."""


@inner
def chosen(s: Any, ids: Any, near: Any, held: Any) -> None:
    """A token chose `ids`; near: int32 [NEAR or 0, k], what it chose in the layers before, -1 behind the last."""
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
    _remember(s, ids, near)
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
        if _cost(s, blend) < _cost(s, best):
            best = blend
    if _cost(s, best) < _cost(s, leader) * (1.0 - HYSTERESIS):
        s.counts[LEADER] = leader = best
    _rank(s, leader)


@inner
def _cost(s: Any, blend: int) -> float:
    """What a blend lately missed; the learned one is forgiven some of it."""
    return s.sums[MISSES + blend] * (1.0 - FAVOUR if blend == BLENDS - 1 else 1.0)


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
    """Count that `ids` followed what the last token chose."""
    last, followed = s.cells[LAST], s.follows.shape[1] - 1
    for i in range(s.counts[WIDTH]):
        row = s.follows[last[i]]
        if row[followed] == FOLLOWED_MAX:
            for e in range(len(row)):
                row[e] >>= 1
        row[followed] += 1
        for e in ids:
            row[e] += 1


@inner
def _remember(s: Any, ids: Any, near: Any) -> None:
    """`ids` are the last token's now."""
    for back in range(BACK - 1, 0, -1):
        s.counts[WIDTH + back] = s.counts[WIDTH + back - 1]
        for i in range(s.counts[WIDTH + back]):
            s.cells[LAST + back, i] = s.cells[LAST + back - 1, i]
    s.counts[WIDTH] = len(ids)
    often, experts = s.values[OFTEN], s.values.shape[1]
    s.sums[TOKENS] = s.sums[TOKENS] * KEEP[SCALES - 1] + 1.0
    for e in range(experts):
        s.values[PLACE, e] = 0.0
        often[e] *= KEEP[SCALES - 1]
    for i in range(len(ids)):
        s.cells[LAST, i] = ids[i]
        s.values[PLACE, ids[i]] = 1.0 - i / len(ids)
        often[ids[i]] += 1.0
    usual = len(ids) / (experts + 1.0)
    for e in range(experts):
        used = often[e] + UNPROVEN * usual
        s.values[ODDS, e] = math.log(used / (s.sums[TOKENS] + UNPROVEN - used))
    for layer in range(NEAR):
        width = 0
        if layer < len(near):
            while width < near.shape[1] and 0 <= near[layer, width] < experts:
                s.cells[LAST + BACK + layer, width] = near[layer, width]
                width += 1
        s.counts[WIDTH + BACK + layer] = width


@inner
def _feature(s: Any, number: int, e: int) -> float:
    """What the learned ranking sees: an expert's use at a time scale beside the mean of all; its place; its odds."""
    if number == SCALES:
        return s.values[PLACE, e]
    if number > SCALES:
        return s.values[ODDS, e]
    return 2.0 * (s.values[RATE + number, e] / s.sums[NORM + number] - s.counts[WIDTH] / s.values.shape[1])


@inner
def _learn(s: Any, ids: Any) -> None:
    """Compare what was expected of a token with `ids`, its choice, and move the learned ranking that way.

    A logistic regression by stochastic gradient.
    """
    width, experts = s.counts[WIDTH], s.values.shape[1]
    if width == 0:
        for number in range(FEATURES):
            s.sums[SLOPE + number] = SLOPES[number]
        s.sums[TRUST], s.counts[LEADER] = 1.0, BLENDS - 1
        return
    expected, error, move = s.values[LEARNED], s.values[ERROR], STEP / width
    for e in range(experts):
        # tanh(x) is nearly x (27 + x^2) / (27 + 9 x^2) up to 3, and the logistic function of 2 x is (1 + tanh(x)) / 2.
        x = min(max(0.5 * expected[e], -3.0), 3.0)
        error[e] = 0.5 + 0.5 * x * (27.0 + x * x) / (27.0 + 9.0 * x * x)
    for e in ids:
        error[e] -= 1.0
    for number in range(FEATURES):
        slope = 0.0
        for e in range(experts):
            slope += error[e] * _feature(s, number, e)
        s.sums[SLOPE + number] -= SLOPE_STEP * move * slope
    slope, trust = 0.0, s.sums[TRUST]
    for e in range(experts):
        s.values[BIAS, e] -= BIAS_STEP * move * error[e]
        slope += error[e] * s.values[TOLD, e]
    s.sums[TRUST] = min(max(trust - TRUST_STEP * move * slope, TRUST_LEAST), TRUST_MOST)
    for source in range(SOURCES):
        count = s.counts[WIDTH + source]
        for i in range(count):
            weights, step = s.weights[s.cells[LAST + source, i] + source * experts], trust * move * (1.0 - i / count)
            for e in range(experts):
                weights[e] -= step * error[e] + FADE * weights[e]


@inner
def _predict(s: Any) -> None:
    """Write what is expected of the next token: the logarithm of the odds that it chooses an expert."""
    expected, told = s.values[LEARNED], s.values[TOLD]
    told[:] = 0.0
    for source in range(SOURCES):
        count = s.counts[WIDTH + source]
        for i in range(count):
            weights, share = s.weights[s.cells[LAST + source, i] + source * len(told)], 1.0 - i / count
            for e in range(len(told)):
                told[e] += share * weights[e]
    for e in range(len(expected)):
        expected[e] = s.values[BIAS, e] + s.sums[TRUST] * told[e]
        for number in range(FEATURES):
            expected[e] += s.sums[SLOPE + number] * _feature(s, number, e)


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
