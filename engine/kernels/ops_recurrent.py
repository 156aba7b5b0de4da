"""Layers with a running state instead of a cache: the gated delta net and the short convolution.

Rows are taken one after another, threads over channels or heads, so the state and every result are the same for any
number of rows in a forward. The state is changed in place; whoever wants to go back must keep a copy (see model.kv).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .compiled import inner
from .ops_basic import rms_norm
from .pointers import f32, i32
from .records import ROWS
from .sync import take

CHANNELS_A_TURN = 64
_NORM_EPS = 1e-6


@inner
def _sigmoid(x: Any) -> Any:
    return np.float32(1.0 / (1.0 + math.exp(-x)))


@inner
def _convolve(history: Any, taps: int, weights: Any, value: float) -> float:
    """One step of a causal convolution over the last `taps` values of a channel; history holds the earlier ones."""
    total = weights[taps - 1] * value
    for t in range(taps - 1):
        total += weights[t] * history[t]
    for t in range(taps - 2):
        history[t] = history[t + 1]
    history[taps - 2] = value
    return total


@inner
def delta_convolve(a: Any, state: Any, sync: int) -> None:
    """DELTA_CONVOLVE: depthwise causal convolution and silu over the channels of q, k and v."""
    rows, taps = state[ROWS], a.taps
    columns = i32(a.columns)
    while True:
        first = take(sync, CHANNELS_A_TURN)
        if first >= a.channels:
            return
        for channel in range(first, min(first + CHANNELS_A_TURN, a.channels)):
            history = f32(a.history + channel * (taps - 1) * 4)
            weights = f32(a.conv + channel * taps * 4)
            for s in range(rows):
                value = f32(a.projected + s * a.projected_stride)[columns[channel]]
                mixed = _convolve(history, taps, weights, value)
                f32(a.mixed + s * a.channels * 4)[channel] = mixed * _sigmoid(mixed)


@inner
def _unit(source: Any, n: int, scale: float, target: Any) -> None:
    """target = scale * source / |source|."""
    total = np.float32(0.0)
    for i in range(n):
        total += source[i] * source[i]
    factor = np.float32(scale / math.sqrt(total + _NORM_EPS))
    for i in range(n):
        target[i] = source[i] * factor


@inner
def _delta_step(memory: Any, q: Any, k: Any, v: Any, decay: float, beta: float, key: int, value: int, y: Any) -> None:
    """memory [key, value] decays, learns v for k where it differs (delta rule), and is read with q into y."""
    for j in range(value):
        y[j] = 0.0
    for i in range(key):
        row = i * value
        for j in range(value):
            memory[row + j] = memory[row + j] * decay
        weight = k[i]
        for j in range(value):
            y[j] += memory[row + j] * weight
    for j in range(value):
        v[j] = (v[j] - y[j]) * beta
        y[j] = 0.0
    for i in range(key):
        row, write, read = i * value, k[i], q[i]
        for j in range(value):
            memory[row + j] += write * v[j]
            y[j] += memory[row + j] * read


@inner
def delta(a: Any, state: Any, sync: int, scratch: int) -> None:
    """DELTA: a piece is a value head, all rows (Yang et al. 2024, gated delta rule)."""
    rows = state[ROWS]
    q, k = f32(scratch), f32(scratch + a.key_dim * 4)
    group = a.value_heads // a.key_heads
    keys = a.key_heads * a.key_dim
    z_columns, b_columns, a_columns = i32(a.z_columns), i32(a.b_columns), i32(a.a_columns)
    scale = 1.0 / math.sqrt(a.key_dim)
    while True:
        h = take(sync, 1)
        if h >= a.value_heads:
            return
        rate = np.float32(math.exp(f32(a.a_log)[h]))
        memory = f32(a.memory + h * a.key_dim * a.value_dim * 4)
        for s in range(rows):
            row = a.mixed + s * a.channels * 4
            _unit(f32(row + h // group * a.key_dim * 4), a.key_dim, scale, q)
            _unit(f32(row + (keys + h // group * a.key_dim) * 4), a.key_dim, 1.0, k)
            gates = f32(a.gates + s * a.gates_stride)
            step = gates[a_columns[h]] + f32(a.dt_bias)[h]
            softplus = step if step > 20.0 else np.float32(math.log1p(math.exp(step)))
            decay = np.float32(math.exp(-rate * softplus))
            beta = _sigmoid(gates[b_columns[h]])
            v = f32(row + (2 * keys + h * a.value_dim) * 4)
            y = a.out + (s * a.value_heads + h) * a.value_dim * 4
            _delta_step(memory, q, k, v, decay, beta, a.key_dim, a.value_dim, f32(y))
            rms_norm(y, a.norm, a.value_dim, a.eps, y)
            z, out = f32(a.z + s * a.z_stride), f32(y)
            for j in range(a.value_dim):
                gate = z[z_columns[h] + j]
                out[j] = out[j] * gate * _sigmoid(gate)


@inner
def short_convolve(a: Any, state: Any, sync: int) -> None:
    """SHORT_CONVOLVE: y = C * conv(B * x) over the channels of one projection [B, C, x] (LFM2)."""
    rows, taps, n = state[ROWS], a.taps, a.channels
    while True:
        first = take(sync, CHANNELS_A_TURN)
        if first >= n:
            return
        for channel in range(first, min(first + CHANNELS_A_TURN, n)):
            history = f32(a.history + channel * (taps - 1) * 4)
            weights = f32(a.conv + channel * taps * 4)
            for s in range(rows):
                row = f32(a.projected + s * a.projected_stride)
                value = row[channel] * row[2 * n + channel]
                f32(a.out + s * n * 4)[channel] = row[n + channel] * _convolve(history, taps, weights, value)
