"""Attention that is a mixture itself (JetMoE): each token's queries come from a few chosen experts.

An expert has a set of query heads, one for every key/value head, and an output projection of its own. Heads of the same
key/value head are laid side by side, so that the attention between the two operations is plain grouped-query attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import inner
from .formats import ROWS as BLOCK
from .pointers import f32, i32, i64
from .products import product16
from .records import ROWS
from .sync import take


@inner
def mixed_queries(a: Any, state: Any, sync: int, scratch: int) -> None:
    """MIXED_QUERIES: a piece is one row and place: the query heads of one chosen expert."""
    rows, per = state[ROWS], a.kv_heads * a.dim
    addresses, products = i64(scratch), scratch + 64
    result = f32(products)
    while True:
        piece = take(sync, 1)
        if piece >= rows * a.top_k:
            return
        s, place = piece // a.top_k, piece % a.top_k
        expert = i32(a.ids)[piece]
        addresses[0] = a.x + s * a.hidden * 4
        q = f32(a.q + s * a.top_k * per * 4)
        for block in range((per + BLOCK - 1) // BLOCK):
            valid = min(BLOCK, per - block * BLOCK)
            product16(a.fmt, a.up + expert * a.up_bytes + block * a.up_step, valid, a.hidden, scratch, 1, products)
            for r in range(valid):
                row = block * BLOCK + r
                q[(row // a.dim * a.top_k + place) * a.dim + row % a.dim] = result[r]


@inner
def mixed_output(a: Any, state: Any, sync: int, scratch: int) -> None:
    """MIXED_OUTPUT: a piece is a row: its experts' projections of their heads, weighed and summed, plus the bias."""
    rows, per = state[ROWS], a.kv_heads * a.dim
    addresses, products = i64(scratch), scratch + 64
    heads = products + BLOCK * 4
    result, gathered = f32(products), f32(heads)
    addresses[0] = heads
    while True:
        s = take(sync, 1)
        if s >= rows:
            return
        attended, y = f32(a.attended + s * a.top_k * per * 4), f32(a.y + s * a.hidden * 4)
        bias, factor = f32(a.bias), np.float32(a.factor)
        for i in range(a.hidden):
            y[i] += factor * bias[i]
        for place in range(a.top_k):
            pair = s * a.top_k + place
            expert, weight = i32(a.ids)[pair], factor * f32(a.weights)[pair]
            for row in range(per):
                gathered[row] = attended[(row // a.dim * a.top_k + place) * a.dim + row % a.dim]
            for block in range((a.hidden + BLOCK - 1) // BLOCK):
                valid = min(BLOCK, a.hidden - block * BLOCK)
                down = a.down + expert * a.down_bytes + block * a.down_step
                product16(a.fmt, down, valid, per, scratch, 1, products)
                for r in range(valid):
                    y[block * BLOCK + r] += weight * result[r]
