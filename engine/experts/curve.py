"""What more or less memory would do: hit rates of the last tokens, replayed with caches of other sizes and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .policies import POLICIES
from .simulator import NOTHING, OPTIMUM, Outcome, optimum_parts, replay_parts
from .trace_reader import LayerTrace

SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)
"""Sizes that are tried, in shares of a layer's experts; the present one is added."""

WORK = 12_000_000
"""Steps of the slowest policy, one for each token, layer, size and expert: a few seconds."""

TOKENS_MIN = 1024
"""With many layers some are left out before the tokens become fewer than that."""

WARM_SHARE = 4
"""The first quarter of the tokens fills the caches and is not counted."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Hit rates by size and policy.

    caps: slots a layer, ascending. rates: policy ("min" for the optimum) -> share of decode look-ups that needed no
    read, 0..1, for each cap; pinned experts are hits throughout. misses: experts read a token, by the present policy.
    tokens: how many were counted. layers: how many were replayed; the others are taken to be like them.
    """

    caps: tuple[int, ...]
    rates: dict[str, tuple[float, ...]]
    misses: tuple[float, ...]
    tokens: int
    layers: int


def choose_caps(experts: int, present: int) -> tuple[int, ...]:
    """The sizes that are tried for layers of so many experts."""
    return tuple(sorted({min(present, experts), *(max(1, round(share * experts)) for share in SHARES)}))


def draw_curve(
    traces: Mapping[int, LayerTrace],
    pinned: npt.NDArray[np.bool_],
    present: int,
    policy: str,
    policies: Sequence[str] = (*POLICIES, OPTIMUM),
) -> Curve | None:
    """Replay the traces of some layers; None when there are too few decoded tokens.

    pinned: bool [layers, experts]. present: slots a layer now. policy: the one in force.
    """
    experts = max((trace.experts for trace in traces.values()), default=0)
    caps = choose_caps(experts, present) if experts else ()
    chosen = _chosen_layers(sorted(traces), experts, len(caps))
    forwards = min((len(traces[layer].calls) - 1 for layer in chosen), default=0)
    forwards = min(forwards, WORK // max(1, experts * len(caps) * len(chosen)))
    if forwards < 2 * WARM_SHARE:
        return None
    cut = [_last(traces[layer], forwards) for layer in chosen]
    ends = [forwards // WARM_SHARE, forwards]
    singles = int(np.count_nonzero(np.diff(cut[0].calls[ends[0] :]) == 1))
    if not singles:
        return None

    def outcome(name: str, cap: int) -> Outcome:
        parts = [
            optimum_parts(trace, cap, ends, pinned[layer])
            if name == OPTIMUM
            else replay_parts(trace, name, cap, ends, pinned[layer])
            for layer, trace in zip(chosen, cut, strict=True)
        ]
        return sum((counted for _, counted in parts), NOTHING)

    found = {name: [outcome(name, cap) for cap in caps] for name in policies}
    scale = len(traces) / len(chosen)
    return Curve(
        caps,
        {name: tuple(part.rate for part in parts) for name, parts in found.items()},
        tuple(scale * part.misses / singles for part in found[policy]),
        singles,
        len(chosen),
    )


def _chosen_layers(layers: Sequence[int], experts: int, caps: int) -> list[int]:
    """All layers, or so many, evenly spread, that TOKENS_MIN tokens can be replayed; eight at least."""
    most = max(8, WORK // max(1, TOKENS_MIN * experts * caps))
    if len(layers) <= most:
        return list(layers)
    return [layers[(2 * number + 1) * len(layers) // (2 * most)] for number in range(most)]


def _last(trace: LayerTrace, forwards: int) -> LayerTrace:
    """The last forwards of a trace."""
    calls = trace.calls[-forwards - 1 :]
    rows = trace.rows[calls[0] :]
    before = tuple(_from(other, int(calls[0])) for other in trace.before)
    return LayerTrace(trace.experts, calls - calls[0], rows - rows[0], trace.ids[rows[0] :], before)


def _from(trace: LayerTrace, token: int) -> LayerTrace:
    """A layer's tokens from one on."""
    rows = trace.rows[token:]
    return trace._replace(rows=rows - rows[0], ids=trace.ids[rows[0] :])
