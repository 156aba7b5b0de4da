"""The vocabulary of programs: what an operation is, and where the forward pass keeps its running state.

A model is compiled once, when it is opened, into a list of operations over fixed addresses: one norm, one product, one
attention and so on after another, for every layer. A native function walks that list on all threads (see `program`).
Families differ in the list, not in the code.

All addresses are bytes, all sizes elements unless a name says bytes; matrices are [n, k], n outputs, k inputs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

# Operations -------------------------------------------------------------------------------------------------------

EMBED: Final = 0
"""y[s] = row ids[s] of matrix w, times f. x: int64 ids."""
NORM: Final = 1
"""y[s] = x[s] / rms(x[s]) * w (w 0: no weight), or the layer norm with bias b; mode ADD: y[s] += f2 * that. f: epsilon.
n values are normed together; a row has k such groups, one if k is 0.
rows: HEAD_GATHER reads the head's rows and writes them from row 0."""
QUANTIZE: Final = 2
"""y[s] = q8 record of x[s] (k columns; y_stride bytes a record)."""
LINEAR: Final = 3
"""y[s] = f2 * (x[s] W^T + b) (mode STORE) or y[s] += ... (mode ADD). b: 0 or float32[n].
after: nothing is computed until the conversation is longer than so many tokens."""
GATE: Final = 4
"""y[s] = activation(x[s]) * w[s], n columns each; w is a second activation here. index: SILU or GELU."""
ROTATE: Final = 5
"""Bias is in; normalise, clip and rotate q and k, and store k and v in the cache. index: attention record."""
ATTEND: Final = 6
"""Attention of every row over the cache. index: attention record."""
ROUTE: Final = 7
"""Router logits -> chosen experts and their weights. index: mixture record."""
UNION: Final = 8
"""Distinct experts of these rows -> jobs; pauses when one is not in memory. index: mixture record."""
EXPERTS_UP: Final = 9
"""Active jobs: h = silu(gate x) * (up x). index: mixture record."""
EXPERTS_QUANTIZE: Final = 10
"""Active jobs: q8 records of h."""
EXPERTS_DOWN: Final = 11
"""Active jobs: y[pair] = down h."""
COMBINE: Final = 12
"""residual += sum over a row's experts of weight * y, in the order of selection, plus the shared expert."""
SCALE: Final = 14
"""y[s] *= the number at w, n columns."""
SOFT_CAP: Final = 15
"""y[s] = f tanh(y[s] / f), n columns."""
LAYER: Final = 13
"""A layer begins (index): tells the board, and pauses when a stop was asked for."""
LATENT_STORE: Final = 20
"""Normalise the latent, rotate its key and the queries' part, store latent and key. index: latent record."""
LATENT_ABSORB: Final = 21
"""Carry the queries into the latent's space. index: latent record."""
LATENT_ATTEND: Final = 22
"""Attention of every row over the latents, all or those selected. index: latent record."""
LATENT_EXPAND: Final = 23
"""Carry what the heads gathered out of the latent's space. index: latent record."""
INDEX_STORE: Final = 24
"""Normalise and store the indexer's key, rotate its queries. index: indexer record."""
INDEX_SELECT: Final = 25
"""Select the keys each row attends to. index: indexer record."""

MIXED_QUERIES: Final = 26
"""Query heads of each row's chosen attention experts. index: mixed-attention record."""
MIXED_OUTPUT: Final = 27
"""Their output projections, weighed and added. index: mixed-attention record."""

DELTA_CONVOLVE: Final = 28
"""Causal convolution and silu over the delta net's q, k, v. index: delta record."""
DELTA: Final = 29
"""The gated delta rule, head by head; norm and gate of its output. index: delta record."""
SHORT_CONVOLVE: Final = 30
"""Gated short convolution. index: delta record."""

ALL_ROWS: Final = 0
HEAD_GATHER: Final = 1
HEAD_ROWS: Final = 2

STORE: Final = 0
ADD: Final = 1

OP = np.dtype(
    [
        ("code", "i8"), ("clock", "i8"), ("fmt", "i8"), ("rows", "i8"), ("mode", "i8"), ("index", "i8"),
        ("x", "i8"), ("x_stride", "i8"), ("y", "i8"), ("y_stride", "i8"),
        ("w", "i8"), ("step", "i8"), ("b", "i8"), ("n", "i8"), ("k", "i8"), ("f", "f8"), ("f2", "f8"),
        ("after", "i8"), ("alone", "i8"), ("joined", "i8"),
    ]
)  # fmt: skip
"""One operation; the meaning of a field is told by the operation above. clock: the board's counter of its time.

For a forward of one row: with `alone` one thread computes it, because there is nothing to share; with `joined` the
threads do not meet after it, because the next operation does not need it, or is computed by the same thread.
"""

NO_NORM: Final = 0
NORM_HEAD: Final = 1
NORM_PROJECTION: Final = 2
NORM_ROTATED: Final = 3  # of each head, after the rotation; without weights when their address is 0

ATTENTION = np.dtype(
    [
        ("q", "i8"), ("k", "i8"), ("v", "i8"), ("out", "i8"),  # float32 rows
        ("q_stride", "i8"), ("gated", "i8"),  # elements from a query head to the next; its gate behind it
        ("cache_k", "i8"), ("cache_v", "i8"), ("capacity", "i8"),  # rings [kv_heads, capacity, dim]
        ("fmt", "i8"),  # of the cache
        ("heads", "i8"), ("kv_heads", "i8"), ("dim", "i8"),
        ("norm", "i8"), ("q_norm", "i8"), ("k_norm", "i8"), ("eps", "f8"),
        ("cos", "i8"), ("sin", "i8"), ("rope_dim", "i8"), ("pairs", "i8"),  # float32 [rows, rope_dim / 2]
        ("clip", "f8"), ("scale", "f8"), ("window", "i8"), ("chunk", "i8"),  # 0: none
        ("sinks", "i8"), ("tuning", "f8"), ("tuning_every", "f8"),
    ]
)  # fmt: skip
"""Grouped-query attention of one layer."""

LATENT = np.dtype(
    [
        ("q", "i8"), ("kv", "i8"),  # float32 [rows, heads, nope + rope_dim], [rows, rank + rope_dim]
        ("query", "i8"),  # float32 [rows, heads, rank + rope_dim]; later what the heads gathered, in the first `rank`
        ("out", "i8"),  # float32 [rows, heads, value]
        ("cache", "i8"), ("fmt", "i8"),  # [capacity, rank + rope_dim]
        ("heads", "i8"), ("nope", "i8"), ("rope_dim", "i8"), ("rank", "i8"), ("value", "i8"),
        ("norm", "i8"), ("eps", "f8"), ("cos", "i8"), ("sin", "i8"), ("pairs", "i8"), ("scale", "f8"),
        ("key_up", "i8"), ("key_fmt", "i8"), ("value_up", "i8"), ("value_fmt", "i8"),  # [heads, rank, nope],
        # [heads, value, rank], both in row-major formats
        ("top_k", "i8"), ("selected", "i8"),  # 0: every key; int32 [rows, top_k]
    ]
)  # fmt: skip
"""Latent attention of one layer."""

INDEXER = np.dtype(
    [
        ("q", "i8"), ("k", "i8"), ("weights", "i8"),  # float32 [rows, heads, dim], [rows, dim], [rows, heads]
        ("heads", "i8"), ("dim", "i8"), ("rope_dim", "i8"), ("pairs", "i8"), ("cos", "i8"), ("sin", "i8"),
        ("norm", "i8"), ("norm_bias", "i8"), ("eps", "f8"),
        ("cache", "i8"), ("fmt", "i8"), ("capacity", "i8"),  # [capacity / KEY_TILE, dim, KEY_TILE]
        ("scores", "i8"),  # float32 [INDEX_ROWS, capacity]
        ("top_k", "i8"), ("selected", "i8"),
    ]
)  # fmt: skip
"""What selects the keys of one layer, and of those after it that have no indexer."""

PAIR_FOLLOWERS: Final = 16
"""Followers of an expert that `pair_ids` and `pair_weights` have room for."""

SOFTMAX: Final = 0
SIGMOID: Final = 1
CHOSEN: Final = 2
SPARSEMIXER: Final = 3

SILU: Final = 0
CLAMPED: Final = 1
GELU: Final = 2

MIXTURE = np.dtype(
    [
        ("layer", "i8"), ("experts", "i8"), ("top_k", "i8"),
        ("logits", "i8"), ("logit_bias", "i8"), ("bias", "i8"), ("scores", "i8"), ("jitter", "f8"),
        ("groups", "i8"), ("top_groups", "i8"), ("group_best", "i8"),
        ("renormalise", "i8"), ("renorm_eps", "f8"), ("scaling", "f8"), ("expert_scale", "i8"),
        ("top_p", "f8"),  # expert_scale: 0 or float32 [experts]
        ("ids", "i8"), ("weights", "i8"), ("kept", "i8"),  # int32 [rows, top_k], float32 [rows, top_k], int32 [rows]
        ("heat", "i8"), ("last_use", "i8"), ("tier", "i8"), ("cells", "i8"),  # this layer's rows of the board
        ("recent", "i8"), ("recent_kept", "i8"), ("recent_clock", "i8"),  # int32 [room, top_k], [room], uint32 [room]
        ("recent_count", "i8"), ("recent_room", "i8"),  # int64 cell: rows ever noted
        ("foreseen", "i8"), ("foreseen_kept", "i8"),  # one token's choice as foreseen a layer earlier, as ids and kept
        ("foreseen2", "i8"), ("foreseen2_kept", "i8"),  # two layers earlier; 0: not foreseen
        ("paired", "i8"), ("paired_kept", "i8"),  # as pairs of the layer before foresaw it; 0: they did not
        ("pair_ids", "i8"), ("pair_weights", "i8"), ("pair_base", "i8"), ("pair_rest", "i8"),
        ("pair_known", "i8"),  # see experts.guesses
        ("next_experts", "i8"), ("next_top_k", "i8"), ("next_paired", "i8"), ("next_paired_kept", "i8"),
        ("both", "i8"), ("both_kept", "i8"),  # `next_foreseen` and `next_paired` together; 0: not wanted
        ("next_foreseen", "i8"), ("next_foreseen_kept", "i8"),
        ("ahead", "i8"), ("ahead_kept", "i8"), ("ahead_slots", "i8"),  # what to go by, and the next mixture's `slot_of`
        ("log", "i8"), ("log_kept", "i8"), ("logged", "i8"), ("log_room", "i8"),  # as ids and kept; int64 cell; rows
        ("slot_of", "i8"), ("parts", "i8"),  # int32 [experts]; int32 [experts, 3]: gate, up, down inside a slot
        ("arena", "i8"), ("slot_bytes", "i8"),
        ("gate_fmt", "i8"), ("up_fmt", "i8"), ("down_fmt", "i8"), ("hidden", "i8"), ("width", "i8"),
        ("gate_step", "i8"), ("up_step", "i8"), ("down_step", "i8"),  # bytes from a block of 16 rows to the next
        ("x", "i8"), ("x_stride", "i8"), ("up_x", "i8"), ("up_x_stride", "i8"), ("h", "i8"), ("hq", "i8"),
        ("hq_stride", "i8"), ("y", "i8"),
        ("activation", "i8"), ("gate_up_bias", "i8"), ("down_bias", "i8"), ("weigh_inputs", "i8"),
        ("output", "i8"), ("add", "i8"), ("factor", "f8"), ("output_bias", "i8"),  # output (+)= factor * combined
        ("shared", "i8"), ("shared_gate", "i8"),  # shared 0: none; shared_gate 0: ungated
    ]
)  # fmt: skip
"""Router, experts and their combination of one layer."""

# State: int64 cells ------------------------------------------------------------------------------------------------

ROWS: Final = 0  # rows of this forward
POSITION: Final = 1  # of row 0 in the conversation
CLOCK: Final = 2  # forwards so far
STOP: Final = 3  # set from any thread: pause at the next layer
HEAD_FROM: Final = 4  # rows whose logits are wanted
HEAD_TO: Final = 5
PAUSE: Final = 6
JOBS: Final = 7  # distinct experts of the layer at hand
MISSES: Final = 8  # of them not in memory
ACTIVE: Final = 9  # jobs to compute now
ALWAYS_PAUSE: Final = 10  # every mixture pauses: a route trace is being written
COUNTERS: Final = 11  # address of the board's counters
HIT_COUNTER: Final = 12  # index of the counter of pin hits; cache and disk follow
JOB_EXPERT: Final = 13  # addresses: int64 [experts]
JOB_FIRST: Final = 14  # int64 [experts + 1]
JOB_PAIRS: Final = 15  # int64 [rows * top_k]: row * top_k + place, grouped by job
ACTIVE_JOBS: Final = 16  # int64 [experts]
EXPERT_COUNT: Final = 17  # int64 [experts], scratch
SCRATCH: Final = 18  # address of the threads' scratch
SCRATCH_BYTES: Final = 19  # per thread
MAX_ROWS: Final = 20
KEPT_COUNTER: Final = 21  # index of the counter of experts kept; rows x layers follow; -1: not counted
TIMESPEC: Final = 22  # two cells for the system's clock
LAYER_BEGAN: Final = 23  # address: int64 [layers], the clock when a layer of this forward began
STATE_CELLS: Final = 32

KEY_TILE: Final = 64
"""Keys that attention handles between two rescalings; tiles start at multiples of it, whatever a forward's rows."""


def attention_scratch(group: int, dim: int) -> int:
    """Bytes of scratch for attention with `group` query heads a key head: addresses, scores, weights, sums."""
    return group * (8 + 4 * (KEY_TILE + 16 + dim + 4))


HEADS_TOGETHER = 16
"""Heads of latent attention that share a tile of latents, at most."""

HISTOGRAM_BYTES = 256 * 8
"""Scratch that choosing the best of many numbers takes."""

INDEX_ROWS = 8
"""Rows whose keys are scored before their best are chosen."""


def latent_scratch(rank: int, row_bytes: int) -> int:
    """Bytes of scratch for latent attention: addresses, scores, weights, sums, and a tile of gathered rows."""
    return HEADS_TOGETHER * (8 + 4 * (16 + KEY_TILE + 2 + rank)) + KEY_TILE * row_bytes


def index_scratch(heads: int) -> int:
    """Bytes of scratch for an indexer: products of its heads and scores of a tile of keys; or a histogram."""
    return max((heads + 2) * KEY_TILE * 4, HISTOGRAM_BYTES)


def scratch_bytes(max_rows: int, experts: int) -> int:
    """Bytes of scratch a thread needs for products (twice row addresses and a block of results) and for routing."""
    return -(-max(max_rows * 2 * (8 + 16 * 4), experts * 12, 1024) // 64) * 64


MIXED = np.dtype(
    [
        ("x", "i8"), ("q", "i8"), ("attended", "i8"), ("y", "i8"), ("ids", "i8"), ("weights", "i8"),
        ("fmt", "i8"), ("up", "i8"), ("up_bytes", "i8"), ("up_step", "i8"), ("down", "i8"), ("down_bytes", "i8"),
        ("down_step", "i8"), ("bias", "i8"), ("factor", "f8"), ("hidden", "i8"), ("top_k", "i8"), ("kv_heads", "i8"),
        ("dim", "i8"),
    ]
)  # fmt: skip
"""A mixture of attention experts: per expert `up` [kv_heads * dim, hidden] and `down` [hidden, kv_heads * dim]."""


def mixed_scratch(width: int) -> int:
    """Bytes of scratch for an attention expert's output: an address, a block of results, the gathered heads."""
    return 64 + 64 + 4 * width


DELTA_NET = np.dtype(
    [
        ("projected", "i8"), ("projected_stride", "i8"), ("columns", "i8"), ("channels", "i8"), ("mixed", "i8"),
        ("conv", "i8"), ("taps", "i8"), ("history", "i8"), ("memory", "i8"),  # states, float32
        ("key_heads", "i8"), ("value_heads", "i8"), ("key_dim", "i8"), ("value_dim", "i8"),
        ("z", "i8"), ("z_stride", "i8"), ("z_columns", "i8"), ("gates", "i8"), ("gates_stride", "i8"),
        ("b_columns", "i8"), ("a_columns", "i8"), ("a_log", "i8"), ("dt_bias", "i8"), ("norm", "i8"), ("eps", "f8"),
        ("out", "i8"),
    ]
)  # fmt: skip
"""A gated delta net, or with its first fields a short convolution. *_columns: int32, where a channel, a head's z, b or
a lies in its projection. history: [channels, taps - 1]; memory: [value_heads, key_dim, value_dim]."""


class Tables(NamedTuple):
    """The records that operations point to, one array a kind."""

    attentions: npt.NDArray[Any]
    latents: npt.NDArray[Any]
    indexers: npt.NDArray[Any]
    mixtures: npt.NDArray[Any]
    mixed: npt.NDArray[Any]
    deltas: npt.NDArray[Any]


TABLE_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "attentions": ATTENTION,
    "latents": LATENT,
    "indexers": INDEXER,
    "mixtures": MIXTURE,
    "mixed": MIXED,
    "deltas": DELTA_NET,
}
