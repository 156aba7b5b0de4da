"""The telemetry board: flat arrays that the engine writes and a reader samples without locks.

The engine updates single cells while it computes; nobody waits for anybody. A reader may see a token half
counted, which a display can bear and a total cannot: totals are taken from `Turn` events.

The board lives in ordinary memory, or in shared memory when the engine runs in a process of its own.
"""

from __future__ import annotations

from enum import IntEnum
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
import numpy.typing as npt

from . import routes

ALIGN = 64
"""Arrays start on cache lines, so that the engine's and a reader's lines are not shared by accident."""


class Tier(IntEnum):
    """Where an expert lies now."""

    DISK = 0
    CACHE = 1
    PIN = 2
    WORKING = 3
    NONE = 255  # the layer has no router, or fewer experts


class Phase(IntEnum):
    """What the engine is doing."""

    IDLE = 0
    PREFILL = 1
    DECODE = 2


class Foreseer(IntEnum):
    """What the next layer's experts are foreseen by."""

    NONE = 0
    ROUTER = 1  # its own router, applied one layer early
    PAIRS = 2  # who usually follows those that the present layer chose
    BOTH = 3  # first whom both name


class Counter(IntEnum):
    """Indices into `Board.counters` (int64). They grow from the opening of the model unless said otherwise."""

    CLOCK = 0  # forwards so far; `last_use` holds clock values
    PHASE = 1  # a Phase
    LAYER = 2  # the layer being computed
    PREFILL_DONE = 3  # of this turn
    PREFILL_TOTAL = 4  # of this turn
    TOKENS = 5  # tokens generated
    CONTEXT_USED = 6  # tokens in the KV cache
    HITS_PIN = 7  # decode
    HITS_CACHE = 8
    HITS_DISK = 9
    PREFILL_PIN = 10
    PREFILL_CACHE = 11
    PREFILL_DISK = 12
    BYTES_READ = 13
    READ_WAIT_NS = 14  # time the forward waited for reads
    COMPUTE_NS = 15
    KEFF_SUM = 16  # experts kept, summed over decode rows and layers
    KEFF_ROWS = 17  # rows x layers in that sum
    DECODE_NS = 18
    EVICTIONS = 19
    EXPERTS_NS = 20  # time in native code, by what it was for
    ATTENTION_NS = 21
    DENSE_NS = 22
    HEAD_NS = 23
    SAMPLING_NS = 24
    PREVIOUS_FOUND = 25  # of the experts decode rows chose, those the token before chose too
    PREVIOUS_WANTED = 26  # chosen where there was a token before
    NEXT_FOUND = 27  # those that the layer's router foresaw from the state one layer earlier; with look-ahead only
    NEXT_WANTED = 28
    SECOND_FOUND = 29  # from two layers earlier
    SECOND_WANTED = 30
    AHEAD_READS = 31  # experts read on a guess
    AHEAD_USEFUL = 32  # of them, those the layer then chose; with AHEAD_WASTED what has been decided so far
    AHEAD_WASTED = 33
    AHEAD_ON = 34  # what it is looked ahead by now, a `Foreseer`; 0: not
    AHEAD_GAIN = 35  # thousandths of a token's time that the best way saved when last tried; may be below 0
    WARM_DONE = 36  # of the experts that are pinned or fill the cache at the start, loaded in the background
    WARM_TOTAL = 37
    PAIRS_FOUND = 38  # those that the choice of the layer before foretold, going by `.coli_pairs`; with look-ahead only
    PAIRS_WANTED = 39
    ROUTED = 40  # rows ever written to `Board.routes`


class LayerCell(IntEnum):
    """Indices into a row of `Board.by_layer`. All are of the running turn, or of the last one."""

    PIN = 0  # decode look-ups by where the expert was found
    CACHE = 1
    DISK = 2
    PREFILL_PIN = 3
    PREFILL_CACHE = 4
    PREFILL_DISK = 5
    KEPT = 6  # experts that the last token used
    KEPT_SUM = 7  # the same, summed over decode rows
    KEPT_ROWS = 8  # rows in that sum


COUNTERS = 64
"""Room for counters that later versions add."""


def _layout(layers: int, experts: int, top_k: int) -> dict[str, tuple[int, tuple[int, ...], Any]]:
    """Return name -> (byte offset, shape, dtype) of every array, and the total size under ''."""
    arrays: list[tuple[str, tuple[int, ...], Any]] = [
        ("counters", (COUNTERS,), np.int64),
        ("heat", (layers, experts), np.uint32),
        ("last_use", (layers, experts), np.uint32),
        ("tier", (layers, experts), np.uint8),
        ("by_layer", (layers, len(LayerCell)), np.int64),
        *routes.arrays(layers, top_k),
    ]
    offset = 0
    placed: dict[str, tuple[int, tuple[int, ...], Any]] = {}
    for name, shape, dtype in arrays:
        placed[name] = (offset, shape, dtype)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        offset += -(-size // ALIGN) * ALIGN
    placed[""] = (offset, (), np.uint8)
    return placed


class Board:
    """Arrays over one buffer: `heat`, `last_use`, `tier` are [layers, experts]; `counters` is [COUNTERS].

    heat: how often each expert was chosen, history included (uint32, the counts of `.coli_usage`).
    last_use: the value of Counter.CLOCK when it was last chosen; 0 = not since the model was opened.
    tier: a `Tier`.
    by_layer: int64 [layers, len(LayerCell)], what each layer did in this turn; zeroed when one begins.
    routes: the last tokens' ways through the layers, at most `top_k` experts in each.
    """

    def __init__(self, layers: int, experts: int, top_k: int = 1, shared: SharedMemory | None = None) -> None:
        layout = _layout(layers, experts, top_k)
        size = layout.pop("")[0]
        self.layers, self.experts, self.top_k = layers, experts, top_k
        self._shared = shared
        buffer: Any = bytearray(size) if shared is None else shared.buf
        views = {
            name: np.frombuffer(buffer, dtype=dtype, count=int(np.prod(shape)), offset=offset).reshape(shape)
            for name, (offset, shape, dtype) in layout.items()
        }
        self.counters: npt.NDArray[np.int64] = views["counters"]
        self.heat: npt.NDArray[np.uint32] = views["heat"]
        self.last_use: npt.NDArray[np.uint32] = views["last_use"]
        self.tier: npt.NDArray[np.uint8] = views["tier"]
        self.by_layer: npt.NDArray[np.int64] = views["by_layer"]
        self.routes = routes.Routes(*(views[name] for name in routes.Routes._fields))

    @classmethod
    def create_shared(cls, layers: int, experts: int, top_k: int = 1) -> Board:
        """Create a board in shared memory; its name is `board.name`."""
        size = _layout(layers, experts, top_k)[""][0]
        return cls(layers, experts, top_k, SharedMemory(create=True, size=size))

    @classmethod
    def attach(cls, name: str, layers: int, experts: int, top_k: int = 1) -> Board:
        """Open the board another process created, and unlink its name: the memory lives as long as it is mapped."""
        shared = SharedMemory(name=name)
        shared.unlink()
        return cls(layers, experts, top_k, shared)

    @property
    def name(self) -> str:
        """The shared memory's name, '' for a private board."""
        return self._shared.name if self._shared else ""

    def close(self) -> None:
        """Let go of shared memory. The arrays must not be used afterwards."""
        if self._shared is not None:
            empty = np.zeros((0, 0))
            self.counters = np.zeros(0, np.int64)
            self.heat = self.last_use = empty.astype(np.uint32)
            self.tier = empty.astype(np.uint8)
            self.by_layer = empty.astype(np.int64)
            self.routes = routes.Routes(*(np.zeros((0,) * view.ndim, view.dtype) for view in self.routes))
            self._shared.close()
            self._shared = None
