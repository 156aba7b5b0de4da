"""Speed with another amount of memory, from what was measured with this one.

A token takes the time of computing and that of waiting for reads. Computing is what is left of the measured time a
token without the waits; a read is taken to cost the wait that it cost so far.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .board import Counter
from .events import MemoryCurve, Plan
from .experts.curve import draw_curve
from .experts.placement import Placement
from .experts.recent import RecentChoices
from .model.spec import ModelSpec

TOKENS_MIN = 8
"""No forecast from fewer decoded tokens than these."""


def memory_curve(
    spec: ModelSpec, widths: list[int], placement: Placement, counters: npt.NDArray[np.int64], policy: str, plan: Plan
) -> MemoryCurve:
    """Replay the last tokens. `widths`: experts a token uses in each layer that has a router."""
    recent: RecentChoices = placement.recent
    traces = recent.read(spec.moe_layers, widths, spec.experts)
    pinned = placement.pinned.copy()
    curve = draw_curve(traces, pinned, placement.cap, policy)
    if curve is None:
        return MemoryCurve((), (), {}, (), placement.cap, policy, 0, 0)
    slots = int(np.count_nonzero(pinned)) + len(spec.moe_layers) * np.array(curve.caps)
    everything = len(spec.moe_layers) * spec.experts
    return MemoryCurve(
        caps=curve.caps,
        bytes=tuple((np.minimum(slots, everything) * plan.slot_bytes).tolist()),
        rates=curve.rates,
        tok_s=tuple(_speed(counters, misses) for misses in curve.misses),
        cap=placement.cap,
        policy=policy,
        tokens=curve.tokens,
        layers=curve.layers,
    )


def _speed(counters: npt.NDArray[np.int64], misses: float) -> float | None:
    """Tokens a second when so many experts a token are read."""
    tokens = int(counters[Counter.TOKENS])
    reads = int(counters[Counter.HITS_DISK] + counters[Counter.PREFILL_DISK])
    if tokens < TOKENS_MIN or not counters[Counter.DECODE_NS] or (not reads and misses):
        return None
    wait = int(counters[Counter.READ_WAIT_NS]) / reads if reads else 0.0
    measured = int(counters[Counter.DECODE_NS]) / tokens
    computing = max(measured - wait * int(counters[Counter.HITS_DISK]) / tokens, 0.1 * measured)
    return round(1e9 / (computing + wait * misses), 2)
