"""Notes on the board how each decoded token went through the layers. Costs a few dozen microseconds a token."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, Tier
from ..routes import NOBODY, RING, Part
from .workspace import Workspace

_SPENT = (Counter.READ_WAIT_NS, Counter.EXPERTS_NS, Counter.ATTENTION_NS)


def monotonic_ns() -> int:
    """The clock that native code reads too."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Passage:
    """One token after another: `begin`, `paused` and `waited` as layers need the disk, `end`.

    began: int64 [layers], where native code notes when each layer began.
    """

    def __init__(self, board: Board, space: Workspace, moe_layers: tuple[int, ...], top_k: int) -> None:
        """top_k: the experts a row of the workspace has room for."""
        self._board = board
        self.began = np.zeros(board.layers, np.int64)
        layers = len(moe_layers)
        self._layers = np.array(moe_layers)
        self._ids = space.array("route_ids", (layers, space.rows * top_k), np.int32)[:, : board.top_k]
        self._gates = space.array("route_weights", (layers, space.rows * top_k), np.float32)[:, : board.top_k]
        self._kept = space.array("route_kept", (layers, space.rows), np.int32)[:, :1]
        self._places = np.arange(board.top_k)
        self._found: dict[int, npt.NDArray[np.uint8]] = {}
        self._wait_ms = np.zeros(board.layers, np.float32)
        self._last_end = 0  # 0: the token before was none of this answer
        board.routes.ids[:] = NOBODY

    def begin(self) -> None:
        """A token's forward begins."""
        self._found.clear()
        self._wait_ms[:] = 0
        self._start = monotonic_ns()
        self._before = self._board.counters[list(_SPENT)]

    def paused(self, layer: int, chosen: npt.NDArray[np.int32]) -> None:
        """A layer asks for help: note where its experts lie before anything is read. chosen: ids [k]."""
        self._found[layer] = self._board.tier[layer, chosen]

    def waited(self, layer: int, nanoseconds: int) -> None:
        """So long the layer waited for reads."""
        self._wait_ms[layer] = nanoseconds / 1e6

    def interrupt(self) -> None:
        """The prompt is read: the next token follows none."""
        self._last_end = 0

    def end(self, token: int) -> None:
        """The token is through: write its row, then count it."""
        board, routes, layers = self._board, self._board.routes, self._layers
        counters = board.counters
        now = monotonic_ns()
        row = int(counters[Counter.ROUTED]) % RING
        ids = np.where(self._places < self._kept, self._ids, NOBODY)
        found = np.where(board.tier[layers[:, None], ids] == Tier.PIN, Tier.PIN, Tier.CACHE).astype(np.uint8)
        routes.tokens[row] = counters[Counter.TOKENS], token
        routes.ids[row, layers] = ids
        routes.gates[row, layers] = self._gates
        routes.found[row, layers] = found
        for layer, tiers in self._found.items():
            on_disk = (tiers == Tier.DISK) | (tiers == Tier.WORKING)
            routes.found[row, layer, : len(tiers)] = np.where(on_disk, Tier.DISK, tiers)
        routes.layer_ms[row] = np.diff(self.began, append=now) / 1e6
        routes.wait_ms[row] = self._wait_ms
        spent = (counters[list(_SPENT)] - self._before) / 1e6
        total = (now - (self._last_end or self._start)) / 1e6
        routes.spent[row, : Part.OTHER] = spent
        routes.spent[row, Part.OTHER] = max(total - float(spent.sum()), 0.0)
        self._last_end = now
        counters[Counter.ROUTED] += 1
