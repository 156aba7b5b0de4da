"""Routing and the experts: scores, choice, the distinct experts of a forward, and their products.

A *pair* is one (row, place in its selection): number row * top_k + place. A *job* is one distinct expert with all pairs
that chose it. Every pair's output is kept apart and summed in the order of selection at the end, so neither the order
in which experts arrive from disk nor the number of rows changes a single bit of the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .activations import gelu_mul, silu_mul
from .formats import ROWS as BLOCK
from .pointers import f32, i32, i64, u8, u32
from .products import product16
from .quantize import quantize_q8
from .records import (
    ACTIVE,
    ACTIVE_JOBS,
    ALWAYS_PAUSE,
    CHOSEN,
    CLAMPED,
    CLOCK,
    COUNTERS,
    EXPERT_COUNT,
    GELU,
    HIT_COUNTER,
    JOB_EXPERT,
    JOB_FIRST,
    JOB_PAIRS,
    JOBS,
    KEPT_COUNTER,
    MISSES,
    PAUSE,
    ROWS,
    SIGMOID,
    SPARSEMIXER,
)
from .sync import take

BLOCKS_A_TURN = 8
COLUMNS_A_TURN = 256
PINNED = 2  # Tier.PIN


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _softmax_of_chosen(weights: Any, count: int) -> None:
    """Logits of the chosen -> their softmax; the first is the largest."""
    highest, total = weights[0], np.float32(0.0)
    for place in range(count):
        weights[place] = math.exp(weights[place] - highest)
        total += weights[place]
    for place in range(count):
        weights[place] = weights[place] / total


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
    if keff >= 0:
        counters[keff] += placed
        counters[keff + 1] += rows
    if misses > 0 or state[ALWAYS_PAUSE] != 0 or not _log(m, rows, ids, kept):
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


@njit(cache=True, nogil=True)
def _part(m: Any, expert: int, part: int) -> int:
    """Address of an expert's gate (0), up (1) or down (2)."""
    return m.arena + i32(m.slot_of)[expert] * m.slot_bytes + i32(m.parts)[expert * 3 + part]


@njit(cache=True, nogil=True)
def _add_gate_up_bias(m: Any, expert: int, row: int, valid: int, rows: int, gate: Any, up: Any) -> None:
    """Biases of an expert [2 width]: gate and up alternate, as gpt-oss stores them."""
    bias = f32(m.gate_up_bias + (expert * m.width + row) * 8)
    for j in range(rows):
        for r in range(valid):
            gate[j * BLOCK + r] += bias[2 * r]
            up[j * BLOCK + r] += bias[2 * r + 1]


@njit(cache=True, nogil=True)
def _clamped(gate: Any, up: Any, n: int) -> None:
    """gate = (clamp(up) + 1) * g * sigmoid(1.702 g), g = min(gate, 7), up in -7..7 (gpt-oss)."""
    limit, slope, one = np.float32(7.0), np.float32(1.702), np.float32(1.0)
    for i in range(n):
        g = min(gate[i], limit)
        u = max(min(up[i], limit), -limit)
        gate[i] = (u + one) * g / (one + np.float32(math.exp(-slope * g)))


@njit(cache=True, nogil=True)
def experts_up(m: Any, state: Any, sync: int, scratch: int, max_rows: int) -> None:
    """EXPERTS_UP: a piece is 16 rows of one job's gate and the same of its up projection."""
    active, experts = i64(state[ACTIVE_JOBS]), i64(state[JOB_EXPERT])
    first, pairs = i64(state[JOB_FIRST]), i64(state[JOB_PAIRS])
    blocks = (m.width + BLOCK - 1) // BLOCK
    pieces = state[ACTIVE] * blocks
    addresses = i64(scratch)
    gate_out = scratch + 8 * max_rows
    up_out = gate_out + max_rows * BLOCK * 4
    hidden = f32(gate_out)
    current, rows, gate, up = -1, 0, 0, 0
    while True:
        begin = take(sync, BLOCKS_A_TURN)
        if begin >= pieces:
            return
        for piece in range(begin, min(begin + BLOCKS_A_TURN, pieces)):
            job, block = active[piece // blocks], piece % blocks
            if job != current:
                current, rows = job, first[job + 1] - first[job]
                gate, up = _part(m, experts[job], 0), _part(m, experts[job], 1)
                for j in range(rows):
                    addresses[j] = m.x + pairs[first[job] + j] // m.top_k * m.x_stride
            valid = min(BLOCK, m.width - block * BLOCK)
            product16(m.gate_fmt, gate + block * m.gate_step, valid, m.hidden, scratch, rows, gate_out)
            product16(m.up_fmt, up + block * m.up_step, valid, m.hidden, scratch, rows, up_out)
            if m.gate_up_bias != 0:
                _add_gate_up_bias(m, experts[job], block * BLOCK, valid, rows, hidden, f32(up_out))
            if m.weigh_inputs != 0:
                for j in range(rows):
                    weight = f32(m.weights)[pairs[first[job] + j]]
                    for r in range(BLOCK):
                        hidden[j * BLOCK + r] = hidden[j * BLOCK + r] * weight
                        f32(up_out)[j * BLOCK + r] = f32(up_out)[j * BLOCK + r] * weight
            if m.activation == CLAMPED:
                _clamped(hidden, f32(up_out), rows * BLOCK)
            elif m.activation == GELU:
                gelu_mul(gate_out, up_out, rows * BLOCK, gate_out)
            else:
                silu_mul(gate_out, up_out, rows * BLOCK, gate_out)
            for j in range(rows):
                h = f32(m.h + (pairs[first[job] + j] * m.width + block * BLOCK) * 4)
                for r in range(valid):
                    h[r] = hidden[j * BLOCK + r]


@njit(cache=True, nogil=True)
def experts_quantize(m: Any, state: Any, sync: int) -> None:
    """EXPERTS_QUANTIZE: a piece is one job."""
    active, first, pairs = i64(state[ACTIVE_JOBS]), i64(state[JOB_FIRST]), i64(state[JOB_PAIRS])
    while True:
        piece = take(sync, 1)
        if piece >= state[ACTIVE]:
            return
        job = active[piece]
        for j in range(first[job], first[job + 1]):
            quantize_q8(m.h + pairs[j] * m.width * 4, m.width, m.hq + pairs[j] * m.hq_stride)


@njit(cache=True, nogil=True)
def experts_down(m: Any, state: Any, sync: int, scratch: int, max_rows: int) -> None:
    """EXPERTS_DOWN: a piece is 16 rows of one job's down projection."""
    active, experts = i64(state[ACTIVE_JOBS]), i64(state[JOB_EXPERT])
    first, pairs = i64(state[JOB_FIRST]), i64(state[JOB_PAIRS])
    blocks = (m.hidden + BLOCK - 1) // BLOCK
    pieces = state[ACTIVE] * blocks
    addresses = i64(scratch)
    products = scratch + 8 * max_rows
    result = f32(products)
    current, rows, down = -1, 0, 0
    while True:
        begin = take(sync, BLOCKS_A_TURN)
        if begin >= pieces:
            return
        for piece in range(begin, min(begin + BLOCKS_A_TURN, pieces)):
            job, block = active[piece // blocks], piece % blocks
            if job != current:
                current, rows = job, first[job + 1] - first[job]
                down = _part(m, experts[job], 2)
                for j in range(rows):
                    pair = pairs[first[job] + j]
                    addresses[j] = m.h + pair * m.width * 4 if m.hq == 0 else m.hq + pair * m.hq_stride
            valid = min(BLOCK, m.hidden - block * BLOCK)
            product16(m.down_fmt, down + block * m.down_step, valid, m.width, scratch, rows, products)
            for j in range(rows):
                y = f32(m.y + (pairs[first[job] + j] * m.hidden + block * BLOCK) * 4)
                for r in range(valid):
                    y[r] = result[j * BLOCK + r]
                if m.down_bias != 0:
                    bias = f32(m.down_bias + (experts[job] * m.hidden + block * BLOCK) * 4)
                    for r in range(valid):
                        y[r] += bias[r]


@njit(cache=True, nogil=True)
def combine(m: Any, state: Any, sync: int, scratch: int) -> None:
    """COMBINE: a piece is COLUMNS_A_TURN columns of one row."""
    rows, hidden = state[ROWS], m.hidden
    slices = (hidden + COLUMNS_A_TURN - 1) // COLUMNS_A_TURN
    kept, total = i32(m.kept), f32(scratch)
    while True:
        piece = take(sync, 1)
        if piece >= rows * slices:
            return
        s, begin = piece // slices, piece % slices * COLUMNS_A_TURN
        columns = min(COLUMNS_A_TURN, hidden - begin)
        for i in range(columns):
            total[i] = 0.0
        for place in range(kept[s]):
            pair = s * m.top_k + place
            weight = np.float32(1.0) if m.weigh_inputs != 0 else f32(m.weights)[pair]
            y = f32(m.y + (pair * hidden + begin) * 4)
            for i in range(columns):
                total[i] += weight * y[i]
        if m.shared != 0:
            shared = f32(m.shared + (s * hidden + begin) * 4)
            share = np.float32(1.0)
            if m.shared_gate != 0:
                share = np.float32(1.0 / (1.0 + math.exp(-f32(m.shared_gate)[s])))
            for i in range(columns):
                total[i] += share * shared[i]
        if m.output_bias != 0:
            bias = f32(m.output_bias + begin * 4)
            for i in range(columns):
                total[i] += bias[i]
        output, factor = f32(m.output + (s * hidden + begin) * 4), np.float32(m.factor)
        for i in range(columns):
            output[i] = output[i] + factor * total[i] if m.add != 0 else factor * total[i]
