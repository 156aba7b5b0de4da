"""Latent attention (MLA, DeepSeek-V2, Liu et al. 2024): one short latent a token is all that is kept of it.

Keys and values of every head are products of the latent: k_h = U_h c and v_h = V_h c. Neither is ever computed. Since
q . (U c) = (U^T q) . c, the query is carried into the latent's space instead (LATENT_ABSORB), the heads attend to the
latents themselves, and what they gathered is carried out again by V_h (LATENT_EXPAND). A small part of the key, the one
that is rotated, lies behind the latent in the cache, as it does behind the query; so a score is one product.

A tile of latents is read once for many heads. Tiles start at fixed positions, or at fixed places of a position's
selection, and a head's sums do not depend on the heads beside it: a row's result is the same bits for every number of
rows and threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .activations import exp_sub_sum
from .compiled import inner
from .formats import ROWS as BLOCK
from .formats import TAKES_PLANES
from .inputs import takes, write_record
from .ops_attention import rotate_head
from .ops_basic import rms_norm
from .pointers import f32, i32, i64, u16
from .products import block_bytes, matrix_bytes, product16
from .records import HEADS_TOGETHER, KEY_TILE, POSITION, ROWS
from .sync import take, take_share
from .values import cache_itemsize, keep_row, weigh_heads


@inner
def store(a: Any, state: Any, sync: int) -> None:
    """LATENT_STORE: two pieces a row: the latent and its key, and the rotated part of the queries."""
    rows, position = state[ROWS], state[POSITION]
    width = a.rank + a.rope_dim
    while True:
        piece = take(sync, 1)
        if piece >= 2 * rows:
            return
        s = piece // 2
        cos, sin = f32(a.cos + s * a.rope_dim * 2), f32(a.sin + s * a.rope_dim * 2)
        if piece % 2 == 0:
            latent = a.kv + s * width * 4
            rms_norm(latent, a.norm, a.rank, a.eps, latent)
            rotate_head(f32(latent + a.rank * 4), cos, sin, a.rope_dim, a.pairs != 0)
            keep_row(a.fmt, latent, width, a.cache + (position + s) * width * cache_itemsize(a.fmt))
            continue
        for h in range(s * a.heads, (s + 1) * a.heads):
            source = f32(a.q + (h * (a.nope + a.rope_dim) + a.nope) * 4)
            target = f32(a.query + (h * width + a.rank) * 4)
            for i in range(a.rope_dim):
                target[i] = source[i]
            rotate_head(target, cos, sin, a.rope_dim, a.pairs != 0)


@inner
def _each_head(
    a: Any, rows: int, sync: int, scratch: int, max_rows: int, threads: int,
    fmt: int, w: int, n: int, k: int, x: int, x_head: int, y: int, y_head: int,
) -> None:  # fmt: skip
    """y[s, h] = W_h x[s, h] for all rows and heads. A piece is 16 rows of W_h.

    w: W_0 [n, k] in a row-major format; the next head's follows. x_head, y_head: bytes from a head to the next, in
    rows.
    """
    addresses, products = i64(scratch), scratch + 8 * max_rows
    result = f32(products)
    blocks = (n + BLOCK - 1) // BLOCK
    head_bytes, step = matrix_bytes(fmt, n, k), block_bytes(fmt, k)
    current = -1
    while True:
        first, after = take_share(sync, a.heads * blocks, threads, rows)
        if first == after:
            return
        for piece in range(first, after):
            head, block = piece // blocks, piece % blocks
            if head != current:
                current = head
                for s in range(rows):
                    addresses[s] = x + (s * a.heads + head) * x_head
            valid = min(BLOCK, n - block * BLOCK)
            product16(fmt, w + head * head_bytes + block * step, valid, k, scratch, rows, products)
            for s in range(rows):
                out = f32(y + (s * a.heads + head) * y_head + block * BLOCK * 4)
                for r in range(valid):
                    out[r] = result[s * BLOCK + r]


@inner
def absorb(a: Any, state: Any, sync: int, scratch: int, max_rows: int, threads: int) -> None:
    """LATENT_ABSORB: the part of each query that is not rotated goes into the latent's space."""
    q_head, query_head = (a.nope + a.rope_dim) * 4, (a.rank + a.rope_dim) * 4
    _each_head(
        a, state[ROWS], sync, scratch, max_rows, threads,
        a.key_fmt, a.key_up, a.rank, a.nope, a.q, q_head, a.query, query_head,
    )  # fmt: skip


@inner
def expand(a: Any, state: Any, sync: int, scratch: int, max_rows: int, threads: int) -> None:
    """LATENT_EXPAND: what each head gathered becomes its value."""
    query_head = (a.rank + a.rope_dim) * 4
    _each_head(
        a, state[ROWS], sync, scratch, max_rows, threads,
        a.value_fmt, a.value_up, a.value, a.rank, a.query, query_head, a.out, a.value * 4,
    )  # fmt: skip


@inner
def _gather(cache: int, row_bytes: int, chosen: Any, start: int, keys: int, tile: int) -> int:
    """Address of `keys` rows of the cache, numbers chosen[start...]: in place if they are neighbours, else copied."""
    if chosen[start + keys - 1] - chosen[start] == keys - 1:
        return cache + chosen[start] * row_bytes
    for j in range(keys):
        source, target = u16(cache + chosen[start + j] * row_bytes), u16(tile + j * row_bytes)
        for i in range(row_bytes // 2):
            target[i] = source[i]
    return tile


@inner
def attend(a: Any, state: Any, sync: int, scratch: int, threads: int) -> None:
    """LATENT_ATTEND: a piece is some heads of one row. What a head gathers takes the place of its query,
    in the form that LATENT_EXPAND takes."""
    rows, position = state[ROWS], state[POSITION]
    width, scale = a.rank + a.rope_dim, np.float32(a.scale)
    row_bytes = width * cache_itemsize(a.fmt)
    together = max(1, min(HEADS_TOGETHER, (rows * a.heads + threads - 1) // threads))
    turns = (a.heads + together - 1) // together
    queries = i64(scratch)
    product = scratch + HEADS_TOGETHER * 8  # [heads][BLOCK] of a block of keys
    tile = product + HEADS_TOGETHER * BLOCK * 4  # [heads][KEY_TILE]
    peaks = tile + HEADS_TOGETHER * KEY_TILE * 4
    sums = peaks + HEADS_TOGETHER * 8  # [heads][rank]
    gathered = sums + HEADS_TOGETHER * a.rank * 4  # [KEY_TILE] rows of the cache
    block_scores, scores = f32(product), f32(tile)
    peak, total = f32(peaks), f32(peaks + HEADS_TOGETHER * 4)
    while True:
        piece = take(sync, 1)
        if piece >= rows * turns:
            return
        s, first = piece // turns, piece % turns * together
        heads = min(together, a.heads - first)
        query = a.query + (s * a.heads + first) * width * 4
        keys = position + s + 1
        sparse = a.top_k > 0 and keys > a.top_k
        chosen = i32(a.selected + s * a.top_k * 4)
        if sparse:
            keys = a.top_k
        gathering = f32(sums)
        for i in range(heads * a.rank):
            gathering[i] = 0.0
        for h in range(heads):
            queries[h] = query + h * width * 4
            peak[h] = -math.inf
            total[h] = 0.0
        for start in range(0, keys, KEY_TILE):
            count = min(KEY_TILE, keys - start)
            latents = a.cache + start * row_bytes
            if sparse:
                latents = _gather(a.cache, row_bytes, chosen, start, count, gathered)
            for block in range(0, count, BLOCK):
                valid = min(BLOCK, count - block)
                product16(a.fmt, latents + block * row_bytes, valid, width, scratch, heads, product)
                for h in range(heads):
                    for r in range(valid):
                        scores[h * KEY_TILE + block + r] = block_scores[h * BLOCK + r] * scale
            for h in range(heads):
                highest = peak[h]
                for j in range(h * KEY_TILE, h * KEY_TILE + count):
                    highest = max(highest, scores[j])
                if highest > peak[h]:
                    shrink = np.float32(math.exp(peak[h] - highest))
                    total[h] *= shrink
                    for i in range(h * a.rank, (h + 1) * a.rank):
                        gathering[i] *= shrink
                    peak[h] = highest
                total[h] += exp_sub_sum(tile + h * KEY_TILE * 4, count, peak[h])
            weigh_heads(a.fmt, tile, KEY_TILE * 4, latents, row_bytes, count, a.rank, sums, heads)
        for h in range(heads):
            out = f32(query + h * width * 4)
            for i in range(a.rank):
                out[i] = gathering[h * a.rank + i] / total[h]
            if takes(a.value_fmt) == TAKES_PLANES:
                write_record(a.value_fmt, query + h * width * 4, a.rank, query + h * width * 4)
