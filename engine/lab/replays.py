"""What recorded turns would have found in memory: replays with a placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..experts.pins import Expert, pin_slots
from ..experts.simulator import NOTHING, OPTIMUM, Outcome, optimum_parts, replay_parts
from .recording import Recording


@dataclass(frozen=True, slots=True)
class Room:
    """Memory for experts: slots in all layers together, pinned ones included."""

    slots: int
    layers: tuple[int, ...]
    experts: int
    top_k: int
    expert_bytes: int

    def pins_for(self, selections: int | None, known: int, wanted: float | None = None) -> int:
        """How many of the slots a history of so many selections and experts gets for pins; see `pins.pin_slots`."""
        reserve = len(self.layers) * min(self.top_k, self.experts)
        return min(pin_slots(self.slots, reserve, len(self.layers), selections, wanted), known)

    def cap(self, pins: int) -> int:
        """Slots of every layer's cache beside so many pins."""
        return max(1, min(self.experts, (self.slots - pins) // len(self.layers)))


@dataclass(frozen=True, slots=True)
class Setting:
    """A placement: the policy, slots a layer, pinned experts, and what the cache begins with, likeliest first."""

    policy: str
    cap: int
    pinned: tuple[Expert, ...] = ()
    warm: tuple[Expert, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What was found in memory. Rates are shares of all look-ups, 0..1, prompts included unless they say decode.

    first: of the first turn; later: of the others (None without any). bytes_a_token: read for each decoded token.
    """

    rate: float
    decode_rate: float
    first: float
    later: float | None
    bytes_a_token: float


def turns_of(recording: Recording, setting: Setting, experts: int) -> list[Outcome]:
    """What each turn would have found, all layers together."""
    totals = [NOTHING] * len(recording.ends)
    for layer, trace in recording.layers.items():
        pinned: npt.NDArray[np.bool_] = np.zeros(experts, np.bool_)
        pinned[[expert for where, expert in setting.pinned if where == layer]] = True
        warm = [expert for where, expert in setting.warm if where == layer]
        if setting.policy == OPTIMUM:
            parts = optimum_parts(trace, setting.cap, recording.ends, pinned)
        else:
            parts = replay_parts(trace, setting.policy, setting.cap, recording.ends, pinned, warm)
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return totals


def figures_of(recording: Recording, setting: Setting, room: Room) -> Figures:
    """What the turns would have found together."""
    turns = turns_of(recording, setting, room.experts)
    total, later = sum(turns, NOTHING), sum(turns[1:], NOTHING)
    return Figures(
        total.total_rate,
        total.rate,
        turns[0].total_rate,
        later.total_rate if turns[1:] else None,
        total.misses * room.expert_bytes / max(1, recording.tokens),
    )


def reads(turns: Sequence[Outcome]) -> int:
    """Experts read in these turns."""
    return sum(turn.misses + turn.prefill_misses for turn in turns)
