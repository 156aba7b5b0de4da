"""Embedding, norm, products and activations: the operations that every layer is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .activations import gelu_mul, silu_mul, soft_cap
from .compiled import inner
from .formats import ROWS as BLOCK
from .inputs import write_record
from .pointers import f32, i64
from .products import embed_row, product16
from .records import ADD, GELU, HEAD_FROM, HEAD_GATHER, HEAD_ROWS, HEAD_TO, POSITION, ROWS
from .sync import take, take_share

COLUMNS_A_TURN = 4096


@inner
def row_count(op: Any, state: Any) -> int:
    """Rows an operation works on."""
    if op.rows == HEAD_GATHER or op.rows == HEAD_ROWS:
        return state[HEAD_TO] - state[HEAD_FROM]
    return state[ROWS]


@inner
def embed(op: Any, state: Any, sync: int) -> None:
    """EMBED."""
    ids = i64(op.x)
    rows = state[ROWS]
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        y = op.y + s * op.y_stride
        embed_row(op.fmt, op.w, ids[s], op.k, y)
        if op.f != 1.0:
            out, factor = f32(y), np.float32(op.f)
            for i in range(op.k):
                out[i] = out[i] * factor


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def sum_of_squares(x: int, n: int) -> float:
    """Sum of x[i]^2 over float32[n]; the order is fixed by the compiled code, not by the caller."""
    row = f32(x)
    total = row[0] * row[0]
    for i in range(1, n):
        total += row[i] * row[i]
    return total


@inner
def rms_norm(x: int, w: int, n: int, eps: float, y: int) -> None:
    """y = x / sqrt(mean(x^2) + eps) * w, float32[n]; in place allowed; w 0: no weight (Zhang & Sennrich 2019)."""
    factor = np.float32(1.0 / math.sqrt(sum_of_squares(x, n) / n + eps))
    row, weight, out = f32(x), f32(w), f32(y)
    if w == 0:
        for i in range(n):
            out[i] = row[i] * factor
        return
    for i in range(n):
        out[i] = row[i] * factor * weight[i]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _mean_and_variance(x: int, n: int) -> tuple[float, float]:
    row = f32(x)
    total = row[0]
    for i in range(1, n):
        total += row[i]
    mean = total / np.float32(n)
    squares = (row[0] - mean) * (row[0] - mean)
    for i in range(1, n):
        squares += (row[i] - mean) * (row[i] - mean)
    return mean, squares / np.float32(n)


@inner
def layer_norm(x: int, w: int, b: int, n: int, eps: float, y: int) -> None:
    """y = (x - mean) / sqrt(variance + eps) * w + b, float32[n]; in place allowed (Ba et al. 2016)."""
    mean, variance = _mean_and_variance(x, n)
    factor = np.float32(1.0 / math.sqrt(variance + eps))
    row, weight, bias, out = f32(x), f32(w), f32(b), f32(y)
    for i in range(n):
        out[i] = (row[i] - mean) * factor * weight[i] + bias[i]


@inner
def norm(op: Any, state: Any, sync: int) -> None:
    """NORM."""
    rows = row_count(op, state)
    first = state[HEAD_FROM] if op.rows == HEAD_GATHER else 0
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        x, y = op.x + (first + s) * op.x_stride, op.y + s * op.y_stride
        target = x if op.mode == ADD else y
        if op.b != 0:
            layer_norm(x, op.w, op.b, op.n, op.f, target)
        else:
            for group in range(max(1, op.k)):
                rms_norm(x + group * op.n * 4, op.w, op.n, op.f, target + group * op.n * 4)
        if op.mode == ADD:
            out, normed, factor = f32(y), f32(x), np.float32(op.f2)
            for i in range(op.n):
                out[i] += factor * normed[i]


@inner
def quantize(op: Any, state: Any, sync: int) -> None:
    """QUANTIZE."""
    rows = row_count(op, state)
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        write_record(op.fmt, op.x + s * op.x_stride, op.k, op.y + s * op.y_stride)


@inner
def linear(op: Any, state: Any, sync: int, scratch: int, max_rows: int, threads: int) -> None:
    """LINEAR: a piece is 16 rows of the matrix."""
    if state[POSITION] + state[ROWS] <= op.after:
        return
    rows = row_count(op, state)
    addresses = i64(scratch)
    products = scratch + 8 * max_rows
    for s in range(rows):
        addresses[s] = op.x + s * op.x_stride
    blocks = (op.n + BLOCK - 1) // BLOCK
    result, factor = f32(products), np.float32(op.f2)
    while True:
        first, after = take_share(sync, blocks, threads, rows)
        if first == after:
            return
        for block in range(first, after):
            valid = min(BLOCK, op.n - block * BLOCK)
            product16(op.fmt, op.w + block * op.step, valid, op.k, scratch, rows, products)
            for s in range(rows):
                y = f32(op.y + s * op.y_stride + block * BLOCK * 4)
                if op.b != 0:
                    bias = f32(op.b + block * BLOCK * 4)
                    for r in range(valid):
                        result[s * BLOCK + r] += bias[r]
                if op.mode == ADD:
                    for r in range(valid):
                        y[r] += factor * result[s * BLOCK + r]
                else:
                    for r in range(valid):
                        y[r] = factor * result[s * BLOCK + r]


@inner
def gate(op: Any, state: Any, sync: int) -> None:
    """GATE."""
    rows = row_count(op, state)
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        x, up, y = op.x + s * op.x_stride, op.w + s * op.x_stride, op.y + s * op.y_stride
        if op.index == GELU:
            gelu_mul(x, up, op.n, y)
        else:
            silu_mul(x, up, op.n, y)


@inner
def scale(op: Any, state: Any, sync: int) -> None:
    """SCALE."""
    rows, factor = row_count(op, state), f32(op.w)[0]
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        y = f32(op.y + s * op.y_stride)
        for i in range(op.n):
            y[i] = y[i] * factor


@inner
def cap(op: Any, state: Any, sync: int) -> None:
    """SOFT_CAP: a piece is COLUMNS_A_TURN columns of one row."""
    rows = row_count(op, state)
    pieces = (op.n + COLUMNS_A_TURN - 1) // COLUMNS_A_TURN
    while True:
        piece = take(sync, 1)
        if piece >= rows * pieces:
            return
        s, first = piece // pieces, piece % pieces * COLUMNS_A_TURN
        soft_cap(op.y + s * op.y_stride + first * 4, min(COLUMNS_A_TURN, op.n - first), op.f)
