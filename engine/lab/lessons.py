"""Learns from a set of prompts, answered in an order in which neighbours share experts; tells what that saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..board import Counter
from ..engine import Engine
from ..experts.pins import Expert, rank
from .order import chain, likeness
from .recording import join, record_turn
from .replays import Setting, reads, turns_of


@dataclass(frozen=True, slots=True)
class Lesson:
    """One prompt that was answered. place: among those given, from 0. read: experts read for it."""

    place: int
    prompt_tokens: int
    tokens: int
    hit_rate: float
    read: int


@dataclass(frozen=True, slots=True)
class Learned:
    """What a set of prompts taught, and cost.

    lessons: in the order they were answered. read: experts read, measured. in_order, as_given: experts read in this
    order and in the one given, both replayed from what was recorded, with the same cache and pins.
    """

    lessons: tuple[Lesson, ...]
    selections: int
    read: int
    in_order: int
    as_given: int

    @property
    def saved(self) -> float:
        """Share of the reads that the order saved, by replay; below 0 if it cost some."""
        return 1 - self.in_order / self.as_given if self.as_given else 0.0


def learn(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    policy: str,
    tell: Callable[[int], None],
    *,
    as_given: bool = False,
) -> Learned:
    """Answer prompts (as ids) greedily, each in a conversation of its own; the engine's history learns from them.

    as_given: keep their order. tell: called with how many are done. Raises EngineError.
    """
    order = list(range(len(prompts))) if as_given else chain(likeness(prompts))
    placement, counters = engine.model.placement, engine.board.counters
    pinned: tuple[Expert, ...] = tuple((layer, expert) for layer, expert in np.argwhere(placement.pinned).tolist())
    warm = tuple(rank(engine.board.heat, engine.spec.moe_layers)) if engine.starts_warm else ()
    start, before = engine.board.heat.sum(dtype=np.uint64), counters.copy()
    recordings, lessons = {}, []
    for done, place in enumerate(order):
        tell(done)
        was = _read(counters)
        recordings[place], _, turn = record_turn(engine, prompts[place], tokens)
        lessons.append(Lesson(place, turn.prompt_tokens, turn.tokens, turn.hits.rate, _read(counters) - was))

    def replayed(turns: Sequence[int]) -> int:
        setting = Setting(policy, placement.cap, pinned, warm)
        return reads(turns_of(join(recordings[place] for place in turns), setting, engine.spec.experts))

    return Learned(
        tuple(lessons),
        int(engine.board.heat.sum(dtype=np.uint64) - start),
        _read(counters) - _read(before),
        replayed(order),
        replayed(range(len(prompts))),
    )


def _read(counters: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    return int(counters[Counter.HITS_DISK] + counters[Counter.PREFILL_DISK])
