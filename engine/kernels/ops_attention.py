"""Grouped-query attention: normalise and rotate, store keys and values, attend.

Attention walks the cache in tiles of KEY_TILE keys with the online softmax (Milakov & Gimelshein 2018): one pass,
running maximum and sum per head. All query heads of a group share each key and value that is read. Tiles start at fixed
positions, so a row's result does not depend on how many rows are computed with it.

The cache is a ring: position p lies at p modulo its capacity, which is the whole context, or a multiple of KEY_TILE.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .activations import exp_sub_sum
from .compiled import inner
from .formats import ROWS as BLOCK
from .ops_basic import rms_norm
from .pointers import f32, i64
from .products import product16
from .records import KEY_TILE, NORM_HEAD, NORM_PROJECTION, NORM_ROTATED, POSITION, ROWS
from .sync import take
from .values import cache_itemsize, keep_row, weigh


@inner
def rotate_head(head: Any, cos: Any, sin: Any, dim: int, pairs: bool) -> None:
    """Rotate the first `dim` values of a head: (i, i + dim/2) with halves, (2i, 2i + 1) with pairs (Su et al. 2021)."""
    half = dim // 2
    for i in range(half):
        first = 2 * i if pairs else i
        second = 2 * i + 1 if pairs else i + half
        a, b = head[first], head[second]
        head[first] = a * cos[i] - b * sin[i]
        head[second] = b * cos[i] + a * sin[i]


@inner
def _clip(values: Any, n: int, limit: float) -> None:
    """Clamp n values to -limit..limit (OLMo's `clip_qkv`)."""
    for i in range(n):
        values[i] = min(max(values[i], -limit), limit)


@inner
def _prepare(a: Any, row: int, heads: int, stride: int, weight: int, cos: Any, sin: Any) -> None:
    """Normalise, clip and rotate the `heads` heads of one q or k row in place, `stride` values apart."""
    dim = a.dim
    if a.norm == NORM_PROJECTION:
        rms_norm(row, weight, heads * dim, a.eps, row)
    values = f32(row)
    if a.clip > 0.0:
        _clip(values, heads * dim, np.float32(a.clip))
    for h in range(heads):
        head = row + h * stride * 4
        if a.norm == NORM_HEAD:
            rms_norm(head, weight, dim, a.eps, head)
        if a.rope_dim > 0:
            rotate_head(f32(head), cos, sin, a.rope_dim, a.pairs != 0)
        if a.norm == NORM_ROTATED:
            rms_norm(head, weight, dim, a.eps, head)


@inner
def rotate(a: Any, state: Any, sync: int) -> None:
    """ROTATE: three pieces a row: q, k (into the cache), v (into the cache)."""
    rows, position = state[ROWS], state[POSITION]
    dim = a.dim
    q_bytes, kv_bytes, item = a.heads * a.q_stride * 4, a.kv_heads * dim * 4, cache_itemsize(a.fmt)
    while True:
        piece = take(sync, 1)
        if piece >= 3 * rows:
            return
        s, what = piece // 3, piece % 3
        cos = f32(a.cos + s * a.rope_dim * 2)
        sin = f32(a.sin + s * a.rope_dim * 2)
        if what == 0:
            _prepare(a, a.q + s * q_bytes, a.heads, a.q_stride, a.q_norm, cos, sin)
            if a.tuning != 0.0:
                factor = np.float32(1.0 + a.tuning * math.log1p(math.floor((position + s + 1.0) / a.tuning_every)))
                query = f32(a.q + s * q_bytes)
                for i in range(a.heads * dim):
                    query[i] = query[i] * factor
            continue
        source, target = (a.k, a.cache_k) if what == 1 else (a.v, a.cache_v)
        row = source + s * kv_bytes
        if what == 1:
            _prepare(a, row, a.kv_heads, dim, a.k_norm, cos, sin)
        elif a.clip > 0.0:
            _clip(f32(row), a.kv_heads * dim, np.float32(a.clip))
        place = (position + s) % a.capacity
        for h in range(a.kv_heads):
            keep_row(a.fmt, row + h * dim * 4, dim, target + (h * a.capacity + place) * dim * item)


@inner
def attend(a: Any, state: Any, sync: int, scratch: int) -> None:
    """ATTEND: a piece is one row of one key/value head, with all query heads that share it."""
    rows, position = state[ROWS], state[POSITION]
    dim, scale = a.dim, np.float32(a.scale)
    group, row_bytes = a.heads // a.kv_heads, a.dim * cache_itemsize(a.fmt)
    queries = i64(scratch)
    scores = scratch + group * 8  # [16 keys][group] products land here, then [group][KEY_TILE]
    tile = scores + group * BLOCK * 4
    sums = tile + group * KEY_TILE * 4
    peak, total = f32(sums), f32(sums + group * 4)
    product, weights = f32(scores), f32(tile)
    while True:
        piece = take(sync, 1)
        if piece >= rows * a.kv_heads:
            return
        s, kv = piece // a.kv_heads, piece % a.kv_heads
        last = position + s
        first = max(0, last - a.window + 1) if a.window > 0 else 0
        if a.chunk > 0:
            first = last // a.chunk * a.chunk
        q = a.q + (s * a.heads + kv * group) * a.q_stride * 4
        out = a.out + (s * a.heads + kv * group) * dim * 4
        keys = a.cache_k + kv * a.capacity * row_bytes
        values = a.cache_v + kv * a.capacity * row_bytes
        for g in range(group):
            queries[g] = q + g * a.q_stride * 4
            if a.sinks != 0:
                peak[g], total[g] = f32(a.sinks)[kv * group + g], 1.0
            else:
                peak[g], total[g] = -math.inf, 0.0
        sink = f32(out)
        for i in range(group * dim):
            sink[i] = 0.0
        for start in range(first // KEY_TILE * KEY_TILE, last + 1, KEY_TILE):
            end = min(start + KEY_TILE, last + 1)
            low = max(start, first)
            shift = start % a.capacity - start  # from a key's position to its place in the ring
            for block in range(start, end, BLOCK):
                valid = min(BLOCK, end - block)
                product16(a.fmt, keys + (block + shift) * row_bytes, valid, dim, scratch, group, scores)
                for g in range(group):
                    for r in range(valid):
                        weights[g * KEY_TILE + block - start + r] = product[g * BLOCK + r] * scale
            for g in range(group):
                row = f32(tile + g * KEY_TILE * 4)
                highest = peak[g]
                for j in range(low - start, end - start):
                    highest = max(highest, row[j])
                mine = f32(out + g * dim * 4)
                if highest > peak[g]:
                    shrink = math.exp(peak[g] - highest)
                    total[g] = total[g] * shrink
                    for i in range(dim):
                        mine[i] = mine[i] * shrink
                    peak[g] = highest
                weight = tile + (g * KEY_TILE + low - start) * 4
                total[g] += exp_sub_sum(weight, end - low, peak[g])
                weigh(a.fmt, weight, values + (low + shift) * row_bytes, end - low, dim, out + g * dim * 4)
        for g in range(group):
            mine = f32(out + g * dim * 4)
            for i in range(dim):
                mine[i] = mine[i] / total[g]
            if a.gated != 0:
                gate = f32(q + (g * a.q_stride + dim) * 4)
                for i in range(dim):
                    mine[i] = mine[i] / (np.float32(1.0) + np.float32(math.exp(-gate[i])))
