"""Routing: scores, each row's choice, and the distinct experts of a forward.

A *pair* is one (row, place in its selection): number row * top_k + place. A *job* is one distinct expert with all pairs
that chose it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .compiled import inner
from .pointers import f32, i32, i64, u8, u32
from .records import (
    ACTIVE,
    ACTIVE_JOBS,
    ALWAYS_PAUSE,
    CHOSEN,
    CLOCK,
    COUNTERS,
    EXPERT_COUNT,
    HIT_COUNTER,
    JOB_EXPERT,
    JOB_FIRST,
    JOB_PAIRS,
    JOBS,
    KEPT_COUNTER,
    MISSES,
    PAIR_FOLLOWERS,
    PAUSE,
    ROWS,
    SIGMOID,
    SPARSEMIXER,
)
from .sync import take

PINNED = 2  # Tier.PIN
KEPT = 6  # LayerCell.KEPT; KEPT_SUM and KEPT_ROWS follow
PREVIOUS_FOUND, NEXT_FOUND, SECOND_FOUND, PAIRS_FOUND = 25, 27, 29, 38  # Counter; what was wanted follows


@inner
def _scores(m: Any, logits: Any, scores: Any) -> None:
    """Router logits -> scores over all experts, in float32."""
    if m.logit_bias != 0:
        bias = f32(m.logit_bias)
        for e in range(m.experts):
            logits[e] = logits[e] + bias[e]
    if m.scores == CHOSEN or m.scores == SPARSEMIXER:
        for e in range(m.experts):
            scores[e] = logits[e]
        return
    if m.scores == SIGMOID:
        for e in range(m.experts):
            scores[e] = 1.0 / (1.0 + math.exp(-logits[e]))
        return
    highest = logits[0]
    for e in range(1, m.experts):
        highest = max(highest, logits[e])
    total = np.float32(0.0)
    for e in range(m.experts):
        scores[e] = math.exp(logits[e] - highest)
        total += scores[e]
    for e in range(m.experts):
        scores[e] = scores[e] / total


@inner
def _limit_groups(m: Any, choice: Any) -> None:
    """Leave only the experts of the `top_groups` best groups (by the sum of each one's `group_best` best: 1 or 2)."""
    size = m.experts // m.groups
    for _ in range(m.groups - m.top_groups):
        worst, worst_sum = -1, np.float32(math.inf)
        for g in range(m.groups - 1, -1, -1):
            best, second = np.float32(-math.inf), np.float32(-math.inf)
            for e in range(g * size, (g + 1) * size):
                if choice[e] > best:
                    best, second = choice[e], best
                elif choice[e] > second:
                    second = choice[e]
            total = best + second if m.group_best > 1 else best
            if best != -math.inf and total < worst_sum:
                worst, worst_sum = g, total
        for e in range(worst * size, (worst + 1) * size):
            choice[e] = -math.inf


@inner
def _cut_top_p(weights: Any, ids: Any, top_k: int, top_p: float) -> int:
    """Sort a row's choices by descending weight and return how many carry `top_p` of their sum."""
    for i in range(1, top_k):
        weight, expert, j = weights[i], ids[i], i
        while j > 0 and weights[j - 1] < weight:
            weights[j], ids[j] = weights[j - 1], ids[j - 1]
            j -= 1
        weights[j], ids[j] = weight, expert
    total = 1e-20
    for i in range(top_k):
        total += weights[i]
    running = 0.0
    for i in range(top_k):
        running += weights[i]
        if running >= top_p * total:
            return i + 1
    return top_k


@inner
def _softmax_of_chosen(weights: Any, count: int) -> None:
    """Logits of the chosen -> their softmax; the first is the largest."""
    highest, total = weights[0], np.float32(0.0)
    for place in range(count):
        weights[place] = math.exp(weights[place] - highest)
        total += weights[place]
    for place in range(count):
        weights[place] = weights[place] / total


@inner
def _sparsemixer(m: Any, scores: Any, choice: Any, ids: Any, weights: Any) -> None:
    """Phi-3.5-MoE's router at inference: each choice weighs by a softmax over the scores close to the best one left.

    scores: logits. choice: the same, chosen ones taken out.
    """
    for place in range(m.top_k):
        best = 0
        for e in range(1, m.experts):
            if choice[e] > choice[best]:
                best = e
        highest, total = choice[best], np.float32(0.0)
        for e in range(m.experts):
            spread = max(abs(scores[e]), highest)
            if choice[e] != -math.inf and (highest - scores[e]) / spread <= 2.0 * m.jitter:
                total += np.float32(math.exp(choice[e] - highest))
        ids[place], weights[place] = best, np.float32(1.0) / total
        choice[best] = -math.inf


@inner
def route(m: Any, state: Any, sync: int, scratch: int) -> None:
    """ROUTE: a piece is a row. The correction bias selects; the weights come from the scores without it."""
    rows = state[ROWS]
    scores, choice = f32(scratch), f32(scratch + m.experts * 4)
    kept = i32(m.kept)
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        logits = f32(m.logits + s * m.experts * 4)
        ids = i32(m.ids + s * m.top_k * 4)
        weights = f32(m.weights + s * m.top_k * 4)
        _scores(m, logits, scores)
        if m.bias != 0:
            bias = f32(m.bias)
            for e in range(m.experts):
                choice[e] = scores[e] + bias[e]
        else:
            for e in range(m.experts):
                choice[e] = scores[e]
        if m.groups > 1:
            _limit_groups(m, choice)
        if m.scores == SPARSEMIXER:
            _sparsemixer(m, scores, choice, ids, weights)
        else:
            for place in range(m.top_k):
                best = 0
                for e in range(1, m.experts):
                    if choice[e] > choice[best]:
                        best = e
                ids[place], weights[place] = best, scores[best]
                choice[best] = -math.inf
        if m.scores == CHOSEN:
            _softmax_of_chosen(weights, m.top_k)
        count = m.top_k
        if m.top_p < 1.0:
            count = _cut_top_p(weights, ids, m.top_k, m.top_p)
        kept[s] = count
        factor = np.float32(m.scaling)
        if m.renormalise != 0:
            total = np.float32(0.0)
            for place in range(count):
                total += weights[place]
            total += np.float32(m.renorm_eps)
            for place in range(count):
                weights[place] = weights[place] / total
        for place in range(count):
            weights[place] = weights[place] * factor
            if m.expert_scale != 0:
                weights[place] = weights[place] * f32(m.expert_scale)[ids[place]]


@inner
def _log(m: Any, rows: int, ids: Any, kept: Any) -> bool:
    """Note a token's choice for the cache's policy, which is told later; false if Python has to tell it now."""
    if m.log_room == 0:
        return True
    logged = i64(m.logged)
    if rows > 1 or logged[0] == m.log_room:
        return False
    log = i32(m.log + logged[0] * m.top_k * 4)
    for place in range(kept[0]):
        log[place] = ids[place]
    i32(m.log_kept)[logged[0]] = kept[0]
    logged[0] += 1
    return True


@inner
def _among(expert: int, others: Any, count: int) -> bool:
    found = False
    for i in range(count):
        found = found or others[i] == expert
    return found


@inner
def _common(ids: Any, count: int, others: Any, other_count: int) -> int:
    """How many of `ids` are among `others`."""
    found = 0
    for i in range(count):
        found += _among(ids[i], others, other_count)
    return found


@inner
def _measure(m: Any, counters: Any, ids: Any, kept: int) -> None:
    """Count how many of a token's choices could have been foreseen: by the token before, one and two layers earlier."""
    before = i64(m.recent_count)[0]
    if before > 0:
        last = (before - 1) % m.recent_room
        others = i32(m.recent + last * m.top_k * 4)
        counters[PREVIOUS_FOUND] += _common(ids, kept, others, i32(m.recent_kept)[last])
        counters[PREVIOUS_FOUND + 1] += kept
    if m.foreseen != 0:
        counters[NEXT_FOUND] += _common(ids, kept, i32(m.foreseen), i32(m.foreseen_kept)[0])
        counters[NEXT_FOUND + 1] += kept
    if m.foreseen2 != 0:
        counters[SECOND_FOUND] += _common(ids, kept, i32(m.foreseen2), i32(m.foreseen2_kept)[0])
        counters[SECOND_FOUND + 1] += kept
    if m.paired != 0 and i32(m.paired_kept)[0] > 0:
        counters[PAIRS_FOUND] += _common(ids, kept, i32(m.paired), i32(m.paired_kept)[0])
        counters[PAIRS_FOUND + 1] += kept


@inner
def _pair_up(m: Any, ids: Any, kept: int, scores: int) -> None:
    """Write whom the next mixture is expected to choose, going by who usually follows `ids`. scores: room for float32.

    A naive Bayes estimate, see experts.guesses: every chosen expert speaks for those it is followed by more often than
    by others, beside how often they are chosen at all.
    """
    if m.next_paired == 0:
        return
    guessed = i32(m.next_paired_kept)
    guessed[0] = 0
    if i32(m.pair_known)[0] == 0:
        return
    followers, weights = i32(m.pair_ids), f32(m.pair_weights)
    score, base, rest = f32(scores), f32(m.pair_base), f32(m.pair_rest)
    for e in range(m.next_experts):
        score[e] = base[e] + np.float32(kept) * rest[e]
    for i in range(kept):
        start = ids[i] * PAIR_FOLLOWERS
        for at in range(start, start + PAIR_FOLLOWERS):
            if followers[at] >= 0:
                score[followers[at]] += weights[at]
    guess = i32(m.next_paired)
    for place in range(m.next_top_k):
        best = 0
        for e in range(1, m.next_experts):
            if score[e] > score[best]:
                best = e
        guess[place] = best
        score[best] = -math.inf
    guessed[0] = m.next_top_k


@inner
def _unite(m: Any) -> None:
    """Put the two guesses about the next mixture together: first whom both name, then the router's, then the pairs'."""
    if m.both == 0:
        return
    first, second, both = i32(m.next_foreseen), i32(m.next_paired), i32(m.both)
    firsts, seconds, count = i32(m.next_foreseen_kept)[0], i32(m.next_paired_kept)[0], 0
    for agreed in (1, 0):
        for i in range(firsts):
            if _among(first[i], second, seconds) == (agreed == 1):
                both[count] = first[i]
                count += 1
    for j in range(seconds):
        if not _among(second[j], first, firsts):
            both[count] = second[j]
            count += 1
    i32(m.both_kept)[0] = count


@inner
def _remember(m: Any, clock: int, rows: int, ids: Any, kept: Any) -> None:
    """Note what the rows chose in the ring of recent choices."""
    count = i64(m.recent_count)
    for s in range(rows):
        at = count[0] % m.recent_room
        noted = i32(m.recent + at * m.top_k * 4)
        for place in range(kept[s]):
            noted[place] = ids[s * m.top_k + place]
        i32(m.recent_kept)[at] = kept[s]
        u32(m.recent_clock)[at] = clock
        count[0] += 1


@inner
def _missing_ahead(m: Any) -> int:
    """How many of the experts that the next mixture is expected to choose are not in memory."""
    if m.ahead == 0:
        return 0
    slots, ahead, missing = i32(m.ahead_slots), i32(m.ahead), 0
    for place in range(i32(m.ahead_kept)[0]):
        missing += slots[ahead[place]] < 0
    return missing


@inner
def union(m: Any, state: Any) -> None:
    """UNION: count what was chosen, list the distinct experts, and pause unless all of them are in memory.

    A choice that needs no pause is logged for the cache's policy (log_room 0: no policy, everything fits).
    """
    rows, top_k = state[ROWS], m.top_k
    ids, kept = i32(m.ids), i32(m.kept)
    count, heat, last_use = i64(state[EXPERT_COUNT]), u32(m.heat), u32(m.last_use)
    experts, first, pairs = i64(state[JOB_EXPERT]), i64(state[JOB_FIRST]), i64(state[JOB_PAIRS])
    for e in range(m.experts):
        count[e] = 0
    for s in range(rows):
        for place in range(kept[s]):
            count[ids[s * top_k + place]] += 1
    slot_of = i32(m.slot_of)
    jobs, placed, misses = 0, 0, 0
    for e in range(m.experts):
        if count[e] == 0:
            continue
        heat[e] = min(np.int64(heat[e]) + count[e], 4294967295)
        last_use[e] = state[CLOCK]
        misses += slot_of[e] < 0
        experts[jobs], first[jobs] = e, placed
        placed += count[e]
        count[e] = first[jobs]
        jobs += 1
    first[jobs] = placed
    for s in range(rows):
        for place in range(kept[s]):
            e = ids[s * top_k + place]
            pairs[count[e]] = s * top_k + place
            count[e] += 1
    state[JOBS], state[MISSES] = jobs, misses
    counters, hit, keff = i64(state[COUNTERS]), state[HIT_COUNTER], state[KEPT_COUNTER]
    cells, found = i64(m.cells), 3  # the row's cells of prefill look-ups
    if keff >= 0:
        counters[keff] += placed
        counters[keff + 1] += rows
        found, cells[KEPT] = 0, kept[rows - 1]
        cells[KEPT + 1] += placed
        cells[KEPT + 2] += rows
    expected = 0
    if rows == 1:
        _measure(m, counters, ids, kept[0])
        _pair_up(m, ids, kept[0], state[EXPERT_COUNT])
        _unite(m)
        expected = _missing_ahead(m)
    _remember(m, state[CLOCK], rows, ids, kept)
    if misses > 0 or expected > 0 or state[ALWAYS_PAUSE] != 0 or not _log(m, rows, ids, kept):
        state[PAUSE] = 1
        return
    state[PAUSE], state[ACTIVE] = 0, jobs
    active, tier = i64(state[ACTIVE_JOBS]), u8(m.tier)
    pinned = 0
    for j in range(jobs):
        active[j] = j
        pinned += tier[experts[j]] == PINNED
    counters[hit] += pinned
    counters[hit + 1] += jobs - pinned
    cells[found] += pinned
    cells[found + 1] += jobs - pinned
