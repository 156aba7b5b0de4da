"""Policies side by side, on the same turns and in the same room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..experts.curve import choose_caps
from ..experts.simulator import NOTHING, OPTIMUM, Outcome, gap_share
from .recording import Recording
from .replays import Figures, Room, Setting, figures_of, turns_of

LOSS = 0.001
"""A hit rate lower than LRU's by less than a tenth of a point is no loss."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A policy. workloads: by name, in the present room. gaps: for each size the share of the way from LRU to the
    optimum, over all workloads (None where there is no way); rates: the hit rates there."""

    policy: str
    workloads: dict[str, Figures]
    gaps: tuple[float | None, ...]
    rates: tuple[float, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Contest:
    """caps: the sizes, slots a layer; cap: the present one. best: the policy with the highest mean share of the gap."""

    caps: tuple[int, ...]
    cap: int
    rivals: tuple[Rival, ...]
    best: str


def contest(room: Room, policies: Sequence[str], held_out: Mapping[str, Recording]) -> Contest:
    """Replay every workload with every policy, without pins or a history, at several sizes."""
    cap = room.cap(0)
    caps = choose_caps(room.experts, cap)
    names = list(dict.fromkeys([*policies, "lru", OPTIMUM]))

    def outcome(name: str, size: int) -> Outcome:
        parts = (turns_of(recording, Setting(name, size), room.experts) for recording in held_out.values())
        return sum((turn for turns in parts for turn in turns), NOTHING)

    found = {name: [outcome(name, size) for size in caps] for name in names}
    rivals = []
    for name in names:
        gaps = tuple(map(gap_share, found[name], found["lru"], found[OPTIMUM]))
        rates = tuple(part.total_rate for part in found[name])
        here = {work: figures_of(recording, Setting(name, cap), room) for work, recording in held_out.items()}
        losses = [
            str(size) for size, rate, lru in zip(caps, rates, found["lru"], strict=True) if rate < lru.total_rate - LOSS
        ]
        rivals.append(Rival(name, here, gaps, rates, _verdict(name, gaps, losses)))
    real = [rival for rival in rivals if rival.policy != OPTIMUM]
    return Contest(caps, cap, tuple(rivals), max(real, key=lambda rival: _mean(rival.gaps)).policy)


def _mean(gaps: Sequence[float | None]) -> float:
    known = [gap for gap in gaps if gap is not None]
    return sum(known) / len(known) if known else 0.0


def _verdict(name: str, gaps: Sequence[float | None], losses: Sequence[str]) -> str:
    if name == "lru":
        return "what the others are measured by"
    if name == OPTIMUM:
        return "knows the future: the bound"
    won = f"{100 * _mean(gaps):.0f} % of the way to the optimum"
    return won + (f"; loses to lru with {', '.join(losses)} slots a layer" if losses else "; never loses to lru")
