"""Sparse attention's indexer (DeepSeek-V3.2): which keys a position attends to.

A few small heads score every key a position may see; the `top_k` best are kept, ascending, in `selected`. Positions
that see no more than `top_k` keys attend to all of them and need no choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import inner
from .index_scores import choose_best, index_scores
from .ops_attention import rotate_head
from .ops_basic import layer_norm
from .pointers import f32
from .records import INDEX_ROWS, KEY_TILE, POSITION, ROWS
from .sync import barrier, take
from .values import cache_itemsize, keep_row, weigh_heads

KEYS_A_PIECE = 8 * KEY_TILE
"""Keys a thread scores at once."""


@inner
def store(x: Any, state: Any, sync: int) -> None:
    """INDEX_STORE: two pieces a row: its key, and its queries with the weights of their heads if they are needed."""
    rows, position = state[ROWS], state[POSITION]
    choosing = position + rows > x.top_k
    share = np.float32(x.heads**-0.5)
    while True:
        piece = take(sync, 1)
        if piece >= 2 * rows:
            return
        s = piece // 2
        cos, sin = f32(x.cos + s * x.rope_dim * 2), f32(x.sin + s * x.rope_dim * 2)
        if piece % 2 == 0:
            row = x.k + s * x.dim * 4
            layer_norm(row, x.norm, x.norm_bias, x.dim, x.eps, row)
            rotate_head(f32(row), cos, sin, x.rope_dim, x.pairs != 0)
            item, key = cache_itemsize(x.fmt), position + s
            place = x.cache + (key // KEY_TILE * KEY_TILE * x.dim + key % KEY_TILE) * item
            for i in range(x.dim):
                keep_row(x.fmt, row + i * 4, 1, place + i * KEY_TILE * item)
            continue
        if not choosing:
            continue
        for h in range(s * x.heads, (s + 1) * x.heads):
            rotate_head(f32(x.q + h * x.dim * 4), cos, sin, x.rope_dim, x.pairs != 0)
        weights = f32(x.weights + s * x.heads * 4)
        for h in range(x.heads):
            weights[h] *= share


@inner
def _score(x: Any, s: int, first: int, last: int, scores: int, scratch: int) -> None:
    """Scores of the keys first..last-1 for row s, float32 at `scores` + 4 * key; first is a multiple of KEY_TILE."""
    products, found = scratch, scratch + x.heads * KEY_TILE * 4
    scale = found + KEY_TILE * 4
    q, weights = x.q + s * x.heads * x.dim * 4, x.weights + s * x.heads * 4
    item = cache_itemsize(x.fmt)
    f32(scale)[0] = np.float32(x.dim**-0.5)
    product, score = f32(products), f32(found)
    for start in range(first, last, KEY_TILE):
        for i in range(x.heads * KEY_TILE):
            product[i] = 0.0
        tile = x.cache + start * x.dim * item
        # A tile lies dimension after dimension, so that its keys are summed side by side.
        weigh_heads(x.fmt, q, x.dim * 4, tile, KEY_TILE * item, x.dim, KEY_TILE, products, x.heads)
        index_scores(products, weights, x.heads, scale, found)
        out = f32(scores + start * 4)
        for j in range(min(KEY_TILE, last - start)):
            out[j] = score[j]


@inner
def select(x: Any, state: Any, sync: int, scratch: int, threads: int) -> None:
    """INDEX_SELECT: INDEX_ROWS rows at a time, first scored in pieces of keys, then chosen from row by row."""
    rows, position = state[ROWS], state[POSITION]
    for first in range(max(0, x.top_k - position), rows, INDEX_ROWS):
        count = min(INDEX_ROWS, rows - first)
        spans = (position + first + count + KEYS_A_PIECE - 1) // KEYS_A_PIECE
        while True:
            piece = take(sync, 1)
            if piece >= count * spans:
                break
            s, start = first + piece // spans, piece % spans * KEYS_A_PIECE
            last = min(start + KEYS_A_PIECE, position + s + 1)
            _score(x, s, start, last, x.scores + (s - first) * x.capacity * 4, scratch)
        barrier(sync, threads)
        while True:
            piece = take(sync, 1)
            if piece >= count:
                break
            s = first + piece
            scores, chosen = x.scores + piece * x.capacity * 4, x.selected + s * x.top_k * 4
            choose_best(scores, position + s + 1, x.top_k, scratch, chosen)
        barrier(sync, threads)
