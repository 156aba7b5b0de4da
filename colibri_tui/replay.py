"""A recorded trace, token by token: where one stands, what was used until then, and what a cache would have held.

Knows no screen. A trace holds only whom tokens chose; where those experts lay is simulated (see `replay_host`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from colibri_tui.telemetry import Reads, Sample, resident_share
from engine.board import Phase, Tier
from engine.events import Hits, Ready
from engine.options import KNOB, EngineOptions

_AT_ONCE = 4096
"""Frames that are counted together."""

OPTIMUM: Final = "min"
"""Stands for Belady's optimum, which knows the future, among the policies."""
POLICIES: Final = ("auto", *KNOB["policy"].choices, OPTIMUM)

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Placement:
    """What is simulated: a cache of `cap` slots in every layer, empty at first, and pinned experts beside it.

    pinned: (layer, expert), layers by the model's numbers.
    """

    policy: str
    cap: int
    pinned: tuple[tuple[int, int], ...] = ()


def present(ready: Ready, options: EngineOptions, sample: Sample) -> Placement:
    """Return what the loaded model's engine does now."""
    rows, experts = np.nonzero(sample.tier == Tier.PIN)
    pinned = [(sample.layers[row], expert) for row, expert in zip(rows.tolist(), experts.tolist(), strict=True)]
    return Placement(options.policy or POLICIES[0], ready.plan.cap, tuple(pinned))


class Simulation:
    """Which experts a placement would have held at each token; see `replay_host` for the arrays.

    changes int32 [changes]: cells (layer * experts + expert) that came or left, token by token: each turns what was
    before into its contrary. ends int64 [tokens + 1]: whose are where. counts uint16 [tokens, layers, 3]: look-ups
    that found pins, the cache, nothing. decode bool [tokens]: whether a token was a forward of its own.
    """

    def __init__(
        self,
        placement: Placement,
        pinned: Flags,
        changes: npt.NDArray[np.int32],
        ends: npt.NDArray[np.int64],
        counts: npt.NDArray[np.uint16],
        decode: Flags,
    ) -> None:
        self.placement, self.pinned = placement, pinned
        self._changes, self._ends, self._counts, self._decode = changes, ends, counts, decode
        self._held = pinned.copy()
        self.position = 0
        self._sums = np.zeros((2, len(pinned), 3), np.int64)

    def seek(self, position: int) -> None:
        """Go to a token, on or back."""
        first, last = sorted((position, self.position))
        sign = 1 if position > self.position else -1
        for begin in range(first, last, _AT_ONCE):
            end = min(begin + _AT_ONCE, last)
            self._held ^= self._changed(begin, end) % 2 == 1
            counts, decode = self._counts[begin:end], self._decode[begin:end]
            for place, chosen in enumerate((decode, ~decode)):
                self._sums[place] += sign * counts[chosen].sum(axis=0, dtype=np.int64)
        self.position = position

    def _changed(self, begin: int, end: int) -> npt.NDArray[np.intp]:
        """How often each expert came or left meanwhile, [layers, experts]."""
        cells = self._changes[self._ends[begin] : self._ends[end]]
        times: npt.NDArray[np.intp] = np.bincount(cells, minlength=self._held.size).reshape(self._held.shape)
        return times

    @property
    def found(self) -> npt.NDArray[np.int64]:
        """Look-ups until now that found pins, the cache, nothing, [layers, 3]."""
        both: npt.NDArray[np.int64] = self._sums.sum(axis=0)
        return both

    @property
    def decode(self) -> Hits:
        """Those of the answers."""
        return Hits(*self._sums[0].sum(axis=0).tolist())

    @property
    def prefill(self) -> Hits:
        """Those of the prompts."""
        return Hits(*self._sums[1].sum(axis=0).tolist())

    @property
    def newest(self) -> Hits:
        """Those of the newest token."""
        if not self.position:
            return Hits()
        return Hits(*self._counts[self.position - 1].sum(axis=0, dtype=np.int64).tolist())

    def tier(self, fired: Flags) -> npt.NDArray[np.uint8]:
        """Where every expert lies now, or in the case of those that the newest token chose, where it found them."""
        held = self._held
        if self.position:
            before = held ^ (self._changed(self.position - 1, self.position) % 2 == 1)
            held = np.where(fired, before, held)
        tier = np.where(held, np.uint8(Tier.CACHE), np.uint8(Tier.DISK))
        tier[self.pinned] = Tier.PIN
        return tier


class Replay:
    """Frames int16 [tokens, layers, width] (see `replay_host`). `position`: tokens that were replayed."""

    def __init__(self, frames: npt.NDArray[np.int16], layers: tuple[int, ...], experts: int) -> None:
        self._frames, self.layers, self.experts = frames, layers, experts
        self._heat = np.zeros((len(layers), experts), np.int64)
        self.position = 0
        self.simulation: Simulation | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def seek(self, position: int) -> None:
        """Go to a place, on or back; beyond either end it is the end."""
        position = min(max(position, 0), len(self))
        if position > self.position:
            self._count(self.position, position, 1)
        else:
            self._count(position, self.position, -1)
        self.position = position
        if self.simulation is not None:
            self.simulation.seek(position)

    def take(self, simulation: Simulation) -> None:
        """Show what this one holds from now on."""
        simulation.seek(self.position)
        self.simulation = simulation

    def _count(self, first: int, last: int, sign: int) -> None:
        flat = self._heat.ravel()
        for begin in range(first, last, _AT_ONCE):
            ids = self._frames[begin : min(begin + _AT_ONCE, last)].astype(np.int64)
            cells = ids + np.arange(len(self.layers))[:, None] * self.experts
            flat += sign * np.bincount(cells[ids >= 0], minlength=flat.size)

    def sample(self) -> Sample:
        """Return it as the atlas takes it: heat so far, the newest token's experts fired, and what is simulated."""
        fired = np.zeros(self._heat.shape, np.bool_)
        if self.position:
            ids = self._frames[self.position - 1]
            layers, places = np.nonzero(ids >= 0)
            fired[layers, ids[layers, places]] = True
        heat, nothing = self._heat.astype(np.uint32), Reads(Hits(), Hits(), 0)
        tier = np.full(heat.shape, Tier.DISK, np.uint8)
        resident, found = np.full(len(self.layers), np.nan), np.zeros((len(self.layers), 3), np.int64)
        if self.simulation is not None:
            tier, found = self.simulation.tier(fired), self.simulation.found
            resident = resident_share(heat, tier)
        return Sample(
            layers=self.layers,
            heat=heat,
            tier=tier,
            fired=fired,
            resident=resident,
            found=found,
            clock=self.position,
            last_use=np.zeros(heat.shape, np.uint32),
            evictions=0,
            phase=Phase.IDLE,
            layer=0,
            prefill_done=0,
            prefill_total=0,
            context_used=0,
            tokens=self.position,
            tok_s=None,
            turn=nothing,
            ever=nothing,
        )
