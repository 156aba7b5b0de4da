"""Boards as an engine would leave them, for tests and benchmarks of what draws them."""

import numpy as np

from engine.board import Board, Counter, Phase, Tier
from engine.routes import NOBODY, RING


def lived_in(layers: int = 8, experts: int = 16, *, seed: int = 1, clock: int = 40) -> Board:
    """A board after some turns: skewed heat, a few pins, a cache, everything else on disk."""
    rng = np.random.default_rng(seed)
    board = Board(layers, experts, 2)
    board.routes.ids[:] = NOBODY
    popularity = rng.permuted(np.tile(np.arange(1, experts + 1), (layers, 1)), axis=1)
    board.heat[:] = (4000.0 / popularity**1.3).astype(np.uint32)
    rank = np.argsort(np.argsort(-board.heat.astype(np.int64), axis=1), axis=1)
    board.tier[:] = Tier.DISK
    board.tier[rank < experts // 2] = Tier.CACHE
    board.tier[rank < experts // 4] = Tier.PIN
    board.counters[Counter.CLOCK] = clock
    fire(board, seed=seed)
    return board


def fire(board: Board, *, top_k: int = 2, seed: int = 0) -> None:
    """One forward: top_k random experts of every layer are used, and counted."""
    rng = np.random.default_rng(seed)
    board.counters[Counter.CLOCK] += 1
    row = int(board.counters[Counter.ROUTED]) % RING
    board.counters[Counter.ROUTED] += 1
    board.routes.tokens[row] = board.counters[Counter.TOKENS] + 1, 7
    board.routes.spent[row] = rng.integers(1, 9), 5, 2, 1
    for layer in range(board.layers):
        chosen = rng.choice(board.experts, size=min(top_k, board.experts), replace=False)
        board.heat[layer, chosen] += 1
        board.last_use[layer, chosen] = board.counters[Counter.CLOCK]
        width = min(len(chosen), board.top_k)
        board.routes.ids[row, layer, :width] = chosen[:width]
        board.routes.found[row, layer, :width] = board.tier[layer, chosen[:width]]
        board.routes.gates[row, layer, :width] = np.linspace(0.6, 0.4, width)
        missed = np.count_nonzero(board.tier[layer, chosen] == Tier.DISK)
        board.routes.layer_ms[row, layer], board.routes.wait_ms[row, layer] = 1 + missed, missed
        pinned = int((board.tier[layer, chosen] == Tier.PIN).sum())
        cached = int((board.tier[layer, chosen] == Tier.CACHE).sum())
        board.by_layer[layer, :3] += pinned, cached, len(chosen) - pinned - cached
        board.counters[Counter.HITS_PIN] += pinned
        board.counters[Counter.HITS_CACHE] += cached
        board.counters[Counter.HITS_DISK] += len(chosen) - pinned - cached
    board.counters[Counter.TOKENS] += 1
    board.counters[Counter.BYTES_READ] += 1_000_000
    board.counters[Counter.PHASE] = Phase.DECODE
