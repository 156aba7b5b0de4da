"""What a cache of another size or another policy would have done: replays a route trace.

The replay runs the engine's own policies on the trace's tokens, one forward after another, and counts like the engine:
once per distinct expert of a forward and layer. Belady's optimum (MIN), which knows the future, is the bound that no
policy can pass; how much of the way from LRU to it a policy goes is its share of the gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .policies import POLICIES, make_state, note, settle  # before numba: this decides where compiled code is kept
from .policies.state import ORDER
from .trace_reader import Ids, Ints, LayerTrace, near_of

from numba import njit  # isort: skip


class Outcome(NamedTuple):
    """Look-ups of a replay that were hits and misses, of one-token forwards (decode) and larger ones (prefill)."""

    hits: int
    misses: int
    prefill_hits: int
    prefill_misses: int

    @property
    def rate(self) -> float:
        """Share of the decode look-ups that were hits, 0..1."""
        return self.hits / max(1, self.hits + self.misses)

    @property
    def prefill_rate(self) -> float:
        """Share of the prefill look-ups that were hits, 0..1."""
        return self.prefill_hits / max(1, self.prefill_hits + self.prefill_misses)

    @property
    def total_rate(self) -> float:
        """Share of all look-ups that were hits, 0..1."""
        hits = self.hits + self.prefill_hits
        return hits / max(1, hits + self.misses + self.prefill_misses)

    def __add__(self, other: Any) -> Outcome:
        return Outcome(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Outcome(0, 0, 0, 0)

OPTIMUM = "min"
"""Belady's optimum among the policies."""

MISS, HIT, AGAIN = 0, 1, 2
"""What a look-up is: AGAIN stands for an expert that the forward has needed before, which counts for nothing."""


class Steps(NamedTuple):
    """A replay look-up by look-up: what is held at any moment follows from it.

    outcome: what is counted. found: uint8 [ids of the trace], MISS, HIT or AGAIN; who is missed is held from then on.
    left: int32, who left when a forward was over, one forward after the other; ends: int64 [forwards + 1], whose are
    where in it.
    """

    outcome: Outcome
    found: npt.NDArray[np.uint8]
    left: Ids
    ends: Ints


def replay(
    trace: LayerTrace,
    policy: str,
    cap: int,
    pinned: npt.NDArray[np.bool_] | None = None,
    warm: Sequence[int] = (),
) -> Outcome:
    """Replay one layer with a cache of `cap` slots, led by a policy.

    pinned: bool [experts], in memory throughout. warm: what the cache begins with, likeliest first, as far as it fits.
    """
    return replay_parts(trace, policy, cap, [len(trace.calls) - 1], pinned, warm)[0]


def replay_steps(trace: LayerTrace, policy: str, cap: int, pinned: npt.NDArray[np.bool_] | None = None) -> Steps:
    """Like `replay`, telling what became of every look-up; `policy` may be OPTIMUM."""
    steps = _no_steps(len(trace.ids), len(trace.calls))
    end = [len(trace.calls) - 1]
    if policy == OPTIMUM:
        outcome = _optimum_counts(trace, cap, end, pinned, steps)[0]
    else:
        outcome = _replay_counts(trace, policy, cap, end, pinned, (), steps)[0]
    return steps._replace(outcome=outcome, left=steps.left[: steps.ends[-1]])


def _no_steps(ids: int = 0, calls: int = 0) -> Steps:
    """Room for the steps of a trace; without any, none are noted."""
    return Steps(NOTHING, np.full(ids, AGAIN, np.uint8), np.empty(ids, np.int32), np.zeros(calls, np.int64))


def replay_parts(
    trace: LayerTrace,
    policy: str,
    cap: int,
    ends: Sequence[int],
    pinned: npt.NDArray[np.bool_] | None = None,
    warm: Sequence[int] = (),
) -> list[Outcome]:
    """Like `replay`, counting apart the forwards up to each of `ends` (ascending), such as the turns of a session."""
    return _replay_counts(trace, policy, cap, ends, pinned, warm, _no_steps())


def _replay_counts(
    trace: LayerTrace,
    policy: str,
    cap: int,
    ends: Sequence[int],
    pinned: npt.NDArray[np.bool_] | None,
    warm: Sequence[int],
    steps: Steps,
) -> list[Outcome]:
    if pinned is None:
        pinned = np.zeros(trace.experts, np.bool_)
    counts = np.zeros((len(ends), 4), np.int64)
    state, held = make_state(policy, trace.experts), pinned.copy()
    for place, expert in enumerate([expert for expert in warm if not pinned[expert]][:cap]):
        held[expert] = True
        state.cells[ORDER, expert] = -place
    near = near_of(trace if policy == "auto" else trace._replace(before=()))
    _replay(
        POLICIES[policy], state, trace.calls, trace.rows, trace.ids, near, held, pinned, cap,
        np.asarray(ends, np.int64), counts, steps.found, steps.left, steps.ends,
    )  # fmt: skip
    return [Outcome(*part) for part in counts.tolist()]


def optimum(trace: LayerTrace, cap: int) -> Outcome:
    """Replay one layer with a cache that knows the future: after a forward it keeps what is needed soonest."""
    return optimum_parts(trace, cap, [len(trace.calls) - 1])[0]


def optimum_parts(
    trace: LayerTrace, cap: int, ends: Sequence[int], pinned: npt.NDArray[np.bool_] | None = None
) -> list[Outcome]:
    """Like `optimum`, counting apart the forwards up to each of `ends`; `pinned` experts are in memory throughout."""
    return _optimum_counts(trace, cap, ends, pinned, _no_steps())


def _optimum_counts(
    trace: LayerTrace, cap: int, ends: Sequence[int], pinned: npt.NDArray[np.bool_] | None, steps: Steps
) -> list[Outcome]:
    if pinned is None:
        pinned = np.zeros(trace.experts, np.bool_)
    counts = np.zeros((len(ends), 4), np.int64)
    _optimum(
        trace.calls, trace.rows, trace.ids, pinned, cap, np.asarray(ends, np.int64), counts,
        steps.found, steps.left, steps.ends,
    )  # fmt: skip
    return [Outcome(*part) for part in counts.tolist()]


def gap_share(outcome: Outcome, lru: Outcome, best: Outcome) -> float | None:
    """How much of the way from LRU to the optimum a policy goes, over all look-ups; None where there is no way."""
    gap = best.total_rate - lru.total_rate
    return (outcome.total_rate - lru.total_rate) / gap if gap > 0 else None


def replay_all(
    layers: Mapping[int, LayerTrace], policies: Sequence[str], caps: Sequence[int]
) -> dict[tuple[int, str, int], Outcome]:
    """Replay every layer with every policy (OPTIMUM among them) and size: (layer, policy, cap) -> outcome."""
    return {
        (layer, policy, cap): optimum(trace, cap) if policy == OPTIMUM else replay(trace, policy, cap)
        for layer, trace in layers.items()
        for policy in policies
        for cap in caps
    }


@njit(cache=True, nogil=True)
def _count(counts: Any, first: int, last: int, hits: int, needed: int) -> None:
    at = 0 if last - first == 1 else 2
    counts[at] += hits
    counts[at + 1] += needed - hits


@njit(cache=True, nogil=True)
def _replay(
    policy: int,
    s: Any,
    calls: Any,
    rows: Any,
    ids: Any,
    near: Any,
    held: Any,
    pinned: Any,
    cap: int,
    ends: Any,
    counts: Any,
    found: Any,
    left: Any,
    left_ends: Any,
) -> None:
    needed, part = np.zeros(len(pinned), np.bool_), 0
    noted, before, gone = len(found) > 0, held.copy(), 0
    for call in range(ends[-1]):
        while call == ends[part]:
            part += 1
        needed[:] = False
        wanted = hits = 0
        for row in range(calls[call], calls[call + 1]):
            chosen = ids[rows[row] : rows[row + 1]]
            for i, e in enumerate(chosen):
                if not needed[e]:
                    needed[e] = True
                    wanted += 1
                    hits += held[e]
                    if noted:
                        found[rows[row] + i] = held[e]
            note(policy, s, chosen, near[row], held)
        if noted:
            before[:] = held
        settle(policy, s, held, needed, pinned, cap)
        if noted:
            for e in range(len(held)):
                if before[e] and not held[e]:
                    left[gone] = e
                    gone += 1
            left_ends[call + 1] = gone
        _count(counts[part], calls[call], calls[call + 1], hits, wanted)


@njit(cache=True, nogil=True)
def _optimum(
    calls: Any,
    rows: Any,
    ids: Any,
    pinned: Any,
    cap: int,
    ends: Any,
    counts: Any,
    found: Any,
    left: Any,
    left_ends: Any,
) -> None:
    experts, never = len(pinned), len(calls)
    coming, following = np.full(experts, never, np.int64), np.empty(len(ids), np.int64)
    for call in range(len(calls) - 2, -1, -1):
        for i in range(rows[calls[call]], rows[calls[call + 1]]):
            following[i] = coming[ids[i]]
        for i in range(rows[calls[call]], rows[calls[call + 1]]):
            coming[ids[i]] = call
    held, needed = pinned.copy(), np.zeros(experts, np.bool_)
    size = part = gone = 0
    noted = len(found) > 0
    for call in range(ends[-1]):
        while call == ends[part]:
            part += 1
        needed[:] = False
        wanted = hits = 0
        for i in range(rows[calls[call]], rows[calls[call + 1]]):
            e = ids[i]
            coming[e] = following[i]
            if not needed[e]:
                needed[e] = True
                wanted += 1
                hits += held[e]
                if noted:
                    found[i] = held[e]
                size += not held[e]
                held[e] = True
        while size > cap:
            last = -1
            for e in range(experts):
                if held[e] and not pinned[e] and (last < 0 or coming[e] > coming[last]):
                    last = e
            held[last] = False
            size -= 1
            if noted:
                left[gone] = last
                gone += 1
        if noted:
            left_ends[call + 1] = gone
        _count(counts[part], calls[call], calls[call + 1], hits, wanted)
