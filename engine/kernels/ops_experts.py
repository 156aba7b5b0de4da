"""The experts of a forward: their products, and what comes of them.

Jobs and pairs are those of `ops_routing`. Every pair's output is kept apart and summed in the order of selection at the
end, so neither the order in which experts arrive from disk nor the number of rows changes a single bit of the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .activations import gelu_mul, silu_mul
from .compiled import inner
from .formats import ROWS as BLOCK
from .inputs import write_record
from .pointers import f32, i32, i64
from .products import product16
from .records import (
    ACTIVE,
    ACTIVE_JOBS,
    CLAMPED,
    GELU,
    JOB_EXPERT,
    JOB_FIRST,
    JOB_PAIRS,
    ROWS,
)
from .sync import take, take_share

COLUMNS_A_TURN = 256


@inner
def _part(m: Any, expert: int, part: int) -> int:
    """Address of an expert's gate (0), up (1) or down (2)."""
    return m.arena + i32(m.slot_of)[expert] * m.slot_bytes + i32(m.parts)[expert * 3 + part]


@inner
def _add_gate_up_bias(m: Any, expert: int, row: int, valid: int, rows: int, gate: Any, up: Any) -> None:
    """Biases of an expert [2 width]: gate and up alternate, as gpt-oss stores them."""
    bias = f32(m.gate_up_bias + (expert * m.width + row) * 8)
    for j in range(rows):
        for r in range(valid):
            gate[j * BLOCK + r] += bias[2 * r]
            up[j * BLOCK + r] += bias[2 * r + 1]


@inner
def _clamped(gate: Any, up: Any, n: int) -> None:
    """gate = (clamp(up) + 1) * g * sigmoid(1.702 g), g = min(gate, 7), up in -7..7 (gpt-oss)."""
    limit, slope, one = np.float32(7.0), np.float32(1.702), np.float32(1.0)
    for i in range(n):
        g = min(gate[i], limit)
        u = max(min(up[i], limit), -limit)
        gate[i] = (u + one) * g / (one + np.float32(math.exp(-slope * g)))


@inner
def experts_up(m: Any, state: Any, sync: int, scratch: int, max_rows: int, threads: int) -> None:
    """EXPERTS_UP: a piece is 16 rows of one job's gate and the same of its up projection."""
    active, experts = i64(state[ACTIVE_JOBS]), i64(state[JOB_EXPERT])
    first, pairs = i64(state[JOB_FIRST]), i64(state[JOB_PAIRS])
    blocks = (m.width + BLOCK - 1) // BLOCK
    pieces = state[ACTIVE] * blocks
    addresses = i64(scratch)
    gate_out = scratch + 8 * max_rows
    up_out = gate_out + max_rows * BLOCK * 4
    up_xs = up_out + max_rows * BLOCK * 4
    hidden, up_addresses = f32(gate_out), i64(up_xs)
    current, rows, gate, up = -1, 0, 0, 0
    while True:
        begin, end = take_share(sync, pieces, threads, state[ROWS])
        if begin == end:
            return
        for piece in range(begin, end):
            job, block = active[piece // blocks], piece % blocks
            if job != current:
                current, rows = job, first[job + 1] - first[job]
                gate, up = _part(m, experts[job], 0), _part(m, experts[job], 1)
                for j in range(rows):
                    row = pairs[first[job] + j] // m.top_k
                    addresses[j] = m.x + row * m.x_stride
                    up_addresses[j] = m.up_x + row * m.up_x_stride
            valid = min(BLOCK, m.width - block * BLOCK)
            product16(m.gate_fmt, gate + block * m.gate_step, valid, m.hidden, scratch, rows, gate_out)
            product16(m.up_fmt, up + block * m.up_step, valid, m.hidden, up_xs, rows, up_out)
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


@inner
def experts_quantize(m: Any, state: Any, sync: int) -> None:
    """EXPERTS_QUANTIZE: a piece is one job."""
    active, first, pairs = i64(state[ACTIVE_JOBS]), i64(state[JOB_FIRST]), i64(state[JOB_PAIRS])
    while True:
        piece = take(sync, 1)
        if piece >= state[ACTIVE]:
            return
        job = active[piece]
        for j in range(first[job], first[job + 1]):
            write_record(m.down_fmt, m.h + pairs[j] * m.width * 4, m.width, m.hq + pairs[j] * m.hq_stride)


@inner
def experts_down(m: Any, state: Any, sync: int, scratch: int, max_rows: int, threads: int) -> None:
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
        begin, end = take_share(sync, pieces, threads, state[ROWS])
        if begin == end:
            return
        for piece in range(begin, end):
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


@inner
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
