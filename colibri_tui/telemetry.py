"""Turns the engine's board into what the widgets draw. Knows no screen.

A `Telemetry` belongs to one loaded model. It remembers the counters at the start of a turn and at
its first token, so that every figure is a difference over a window that can be named. Sampling
copies about 200 kB for the largest models and takes a fraction of a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri_tui.trail import Trail, Words, read_trail
from engine.board import Board, Counter, Foreseer, LayerCell, Phase, Tier
from engine.events import Hits, Turn

Counters = npt.NDArray[np.int64]

SETTLE_SECONDS = 1.0
"""No live speed before this much decoding was seen: the first quotients jump."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Where experts were found over some window, and what was read from disk for them.

    per_token: bytes read for each token generated after the first, or None when none was.
    """

    decode: Hits
    prefill: Hits
    bytes_read: int
    per_token: float | None = None

    @property
    def total(self) -> Hits:
        """Decode and prefill together."""
        return Hits(
            self.decode.pin + self.prefill.pin,
            self.decode.cache + self.prefill.cache,
            self.decode.disk + self.prefill.disk,
        )


@dataclass(frozen=True, slots=True)
class Ahead:
    """Look-ahead: how well experts were foreseen, and what became of reads on a guess. Of this turn, but for the last.

    recall: by what foresees, experts that layers chose and that it had named, and all they chose. reads, useful,
    wasted: experts read on a guess, those then chosen, those not. by: what reads go by now, NONE: nothing is read.
    gain: share of a token's time that the best way saved when all were last tried, negative where it cost time.
    """

    recall: dict[Foreseer, tuple[int, int]]
    reads: int
    useful: int
    wasted: int
    by: Foreseer
    gain: float


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The board at one moment, layers without a router left out.

    heat uint32, tier uint8, fired bool, last_use uint32 are [layers, experts]; `layers` are the model's own numbers.
    fired: chosen by the token being computed, or in layers it has not reached by the one before.
    resident float64 [layers]: the share of a layer's uses (history included) whose expert is in memory now;
    NaN where nothing was used yet.
    found int64 [layers, 3]: where the layer's experts were found in this turn: pinned, cached, on disk.
    ahead: None where nothing is foreseen. loading: experts loaded in the background and those to load, since the start.
    """

    layers: tuple[int, ...]
    heat: npt.NDArray[np.uint32]
    tier: npt.NDArray[np.uint8]
    fired: npt.NDArray[np.bool_]
    resident: npt.NDArray[np.float64]
    found: npt.NDArray[np.int64]
    clock: int
    last_use: npt.NDArray[np.uint32]
    evictions: int
    phase: Phase
    layer: int
    prefill_done: int
    prefill_total: int
    context_used: int
    tokens: int
    tok_s: float | None
    turn: Reads
    ever: Reads
    ahead: Ahead | None = None
    loading: tuple[int, int] = (0, 0)


def _hits(counters: Counters, pin: Counter) -> Hits:
    """Three neighbouring counters from `pin` on."""
    return Hits(*(int(counters[pin + n]) for n in range(3)))


def _reads(counters: Counters, per_token: float | None = None) -> Reads:
    return Reads(
        _hits(counters, Counter.HITS_PIN),
        _hits(counters, Counter.PREFILL_PIN),
        int(counters[Counter.BYTES_READ]),
        per_token,
    )


def reads_of(turn: Turn, sampled: Reads) -> Reads:
    """Return the exact sums that a turn's own report gives, with the per-token figure of the samples."""
    return Reads(turn.hits, turn.prefill_hits, turn.bytes_read, sampled.per_token)


def _phase(value: int) -> Phase:
    """Counters of a foreign process may hold anything for a moment."""
    return Phase(value) if value in Phase._value2member_map_ else Phase.IDLE


class Telemetry:
    """Samples one board. `moe_layers` are the layers that have a router, as `Ready` lists them."""

    def __init__(self, board: Board, moe_layers: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._board = board
        self.layers = tuple(layer for layer in moe_layers if 0 <= layer < board.layers)
        self.experts = board.experts
        self._rows = np.array(self.layers, np.intp)
        self._now = clock
        self._start: Counters = board.counters.copy()
        self._first_token: tuple[float, Counters] | None = None
        self.words = Words()

    def begin_turn(self) -> None:
        """Count from here: call before the turn's command is sent."""
        self._start = self._board.counters.copy()
        self.words.begin(int(self._start[Counter.TOKENS]))
        self._first_token = None

    def sample(self, *, live: bool) -> Sample | None:
        """Return the board now, or None once it is closed.

        live: a turn is running, so the experts of the current token are marked as fired.
        """
        board = self._board
        if board.counters.size == 0:
            return None
        counters = board.counters.copy()
        heat, tier, last_use = board.heat[self._rows], board.tier[self._rows], board.last_use[self._rows]
        if live:
            fired = fired_now(last_use, int(counters[Counter.CLOCK]))
        else:
            fired = np.zeros(heat.shape, np.bool_)
        delta = counters - self._start
        tok_s, per_token = self._since_first_token(counters, int(delta[Counter.TOKENS]))
        return Sample(
            layers=self.layers,
            heat=heat,
            tier=tier,
            fired=fired,
            resident=resident_share(heat, tier),
            found=_found(board.by_layer[self._rows]),
            clock=int(counters[Counter.CLOCK]),
            last_use=last_use,
            evictions=int(delta[Counter.EVICTIONS]),
            phase=_phase(int(counters[Counter.PHASE])),
            layer=int(counters[Counter.LAYER]),
            prefill_done=int(counters[Counter.PREFILL_DONE]),
            prefill_total=int(counters[Counter.PREFILL_TOTAL]),
            context_used=int(counters[Counter.CONTEXT_USED]),
            tokens=int(delta[Counter.TOKENS]),
            tok_s=tok_s,
            turn=_reads(delta, per_token),
            ever=_reads(counters),
            ahead=_ahead(delta, counters),
            loading=(int(counters[Counter.WARM_DONE]), int(counters[Counter.WARM_TOTAL])),
        )

    def trail(self) -> Trail:
        """Return the last tokens' ways through the layers; not once the board is closed."""
        return read_trail(self._board, self._rows)

    def _since_first_token(self, counters: Counters, tokens: int) -> tuple[float | None, float | None]:
        """Return (tokens a second, bytes read a token) since the sample that saw the first token."""
        if tokens < 1:
            return None, None
        if self._first_token is None:
            self._first_token = self._now(), counters
            return None, None
        then, before = self._first_token
        seconds = self._now() - then
        delta = counters - before
        more = int(delta[Counter.TOKENS])
        if more < 1:
            return None, None
        per_token = float(delta[Counter.BYTES_READ]) / more
        return (more / seconds if seconds >= SETTLE_SECONDS else None), per_token


BY = {Foreseer.ROUTER: "router", Foreseer.PAIRS: "pairs", Foreseer.BOTH: "router and pairs"}
"""What foresees, in words."""

_RECALL = {Foreseer.ROUTER: Counter.NEXT_FOUND, Foreseer.PAIRS: Counter.PAIRS_FOUND}
"""The counter after it is of what was wanted."""


def _ahead(delta: Counters, counters: Counters) -> Ahead | None:
    if not (counters[Counter.NEXT_WANTED] or counters[Counter.PAIRS_WANTED]):
        return None
    recall = {by: (int(delta[found]), int(delta[found + 1])) for by, found in _RECALL.items()}
    return Ahead(
        recall={by: (found, wanted) for by, (found, wanted) in recall.items() if wanted},
        reads=int(delta[Counter.AHEAD_READS]),
        useful=int(delta[Counter.AHEAD_USEFUL]),
        wasted=int(delta[Counter.AHEAD_WASTED]),
        by=Foreseer(int(counters[Counter.AHEAD_ON])),
        gain=int(counters[Counter.AHEAD_GAIN]) / 1000,
    )


def _found(cells: Counters) -> Counters:
    """Decode and prefill together, [layers, 3]."""
    decode, prefill = cells[:, LayerCell.PIN : LayerCell.DISK + 1], cells[:, LayerCell.PREFILL_PIN :][:, :3]
    total: Counters = decode + prefill
    return total


def fired_now(last_use: npt.NDArray[np.uint32], clock: int) -> npt.NDArray[np.bool_]:
    """Return which experts each layer used last, if that was in this forward or the one before.

    The forward runs while one looks: layers it has not reached still show the token before.
    """
    newest = last_use.max(axis=1, keepdims=True, initial=0)
    fired: npt.NDArray[np.bool_] = (last_use == newest) & (newest > 0) & (newest + 1 >= clock)
    return fired


def resident_share(heat: npt.NDArray[np.uint32], tier: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return per layer the share of uses, 0..1, whose expert lies in memory; NaN without uses."""
    in_memory = (tier != Tier.DISK) & (tier != Tier.NONE)
    uses = heat.sum(axis=1, dtype=np.float64)
    held = np.where(in_memory, heat, 0).sum(axis=1, dtype=np.float64)
    share = np.full(uses.shape, np.nan)
    np.divide(held, uses, out=share, where=uses > 0)
    return share
