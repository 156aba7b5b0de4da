"""What a profile is worth: learned from some prompts of a workload, measured on others of every workload."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..experts.pins import SELECTIONS_MIN, rank
from .recording import Recording
from .replays import Figures, Room, Setting, figures_of

EVERYTHING = "all"
"""The profile that learned from every workload."""

POINT = 0.01
"""Differences of less than a point are none."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A profile on a workload: its cache begun with what the profile knows, without pins and with them."""

    profile: str
    workload: str
    off: Figures
    pinned: Figures

    @property
    def gain(self) -> float:
        """What pins add to the total hit rate, in shares."""
        return self.pinned.rate - self.off.rate


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile knows, and what comes of it. pins: how many its history is trusted for; cap: slots beside them.

    warmth: what beginning with its experts in the cache adds to the hit rate of the first turns, mean of all workloads.
    """

    name: str
    selections: int
    pins: int
    cap: int
    warmth: float
    cells: tuple[Cell, ...]
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Profiles by workloads. cold: by workload, an empty cache without a history. cap: slots a layer without pins."""

    cold: dict[str, Figures]
    profiles: tuple[Profile, ...]
    cap: int


def compare(
    room: Room,
    policy: str,
    learned: Mapping[str, npt.NDArray[np.uint32]],
    held_out: Mapping[str, Recording],
    pins_wanted: float | None = None,
) -> Matrix:
    """Replay every workload's held-out turns with every profile's pins, and without.

    learned: by profile, counts [layers, experts]. pins_wanted: slots to pin; None: by the rule for `--pin auto`.
    """
    cap = room.cap(0)
    cold = {name: figures_of(recording, Setting(policy, cap), room) for name, recording in held_out.items()}
    profiles = []
    for name, counts in learned.items():
        ranking = rank(counts, room.layers)
        selections = int(counts.sum(dtype=np.uint64))
        pins = room.pins_for(selections, len(ranking), pins_wanted)
        off = Setting(policy, cap, warm=tuple(ranking))
        on = Setting(policy, room.cap(pins), tuple(ranking[:pins]), tuple(ranking))
        cells = []
        for workload, recording in held_out.items():
            without = figures_of(recording, off, room)
            cells.append(Cell(name, workload, without, figures_of(recording, on, room) if pins else without))
        verdict, reason = judge(name, cells, pins, selections)
        warmth = statistics.fmean(cell.off.first - cold[cell.workload].first for cell in cells)
        profiles.append(Profile(name, selections, pins, room.cap(pins), warmth, tuple(cells), verdict, reason))
    return Matrix(cold, tuple(profiles), cap)


def judge(profile: str, cells: Sequence[Cell], pins: int, selections: int) -> tuple[str, str]:
    """A verdict on a profile's pins, in a word and in a sentence: helps, neutral, overfits or hurts."""
    if not pins:
        why = f"{selections:,} selections are too few" if selections < SELECTIONS_MIN else "the cache needs the room"
        return "neutral", f"nothing is pinned: {why}"
    own = [cell for cell in cells if cell.workload == profile] or list(cells)
    others = [cell for cell in cells if cell not in own]
    gain = statistics.fmean(cell.gain for cell in own)
    worst = min((*others, *own), key=lambda cell: cell.gain)
    what = f"{_points(gain)} on {'its own work' if others else 'average'}"
    if others:
        what += f", {_points(statistics.fmean(cell.gain for cell in others))} on others"
    if worst.gain <= -POINT:
        what += f", {_points(worst.gain)} on {worst.workload}"
    if gain >= POINT:
        return ("overfits" if worst.gain <= -POINT else "helps"), f"pins: {what}"
    return ("hurts" if worst.gain <= -POINT else "neutral"), f"pins: {what}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"
