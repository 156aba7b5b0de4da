"""What a model will do on a machine: expected hit rate and tokens a second, before anything is loaded.

    dense   = bytes of all but experts that a token reads / (memory rate x EFFICIENCY) + layers x LAYER_S + TOKEN_S
              + bytes of the conversation's cache / (memory rate x ATTENTION)
    experts = bytes of the experts that a token uses / (memory rate x EFFICIENCY)
    read    = experts a token misses x bytes of one / disk rate
    token   = dense + max(experts, read) + misses x MISS_S

What a layer misses is known when its router has spoken, and is read while its hits are computed; the dense part waits
for neither. The conversation's cache, which attention reads, is that of CONTEXT tokens.

Hit rates come from the profile's own turns at the same size of the cache, else from what its history says of a cache
that is refilled by chance, or from published measurements of models of this kind, whichever is higher.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .turn_log import LoggedTurn

EFFICIENCY: Final = 0.86
"""Share of the memory's rate that products of weights reach (measured: 0.85 in int4, 0.86 in int8)."""

ATTENTION: Final = 0.5
"""The same for attention, which reads the conversation's cache (measured: 17 of 35 GB/s, from 256 to 1,024 tokens)."""

LAYER_S: Final = 40e-6
"""What a layer costs besides: norms, routing, threads that wait for each other."""

TOKEN_S: Final = 1e-3
"""What a token costs besides its layers: sampling, text, events."""

MISS_S: Final = 0.25e-3
"""What a miss costs besides its read: choosing its slot, asking for it, going on (measured: 0.19 to 0.29 ms)."""

CONTEXT: Final = 256
"""Tokens of the conversation that a forecast is for."""

ENOUGH_TOKENS: Final = 200
_LIKE: Final = 0.15

_FRACTIONS: Final = (0.0, 0.05, 0.08, 0.12, 0.16, 0.20, 0.25, 0.30, 0.36, 0.45, 0.55, 0.64, 0.75, 1.0)
_CURVES: Final[dict[str, tuple[str, tuple[float, ...]]]] = {
    "qwen3_moe": ("Qwen3-235B-A22B",
                  (0, 0.339, 0.466, 0.580, 0.666, 0.743, 0.800, 0.843, 0.886, 0.933, 0.961, 0.973, 0.978, 1)),
    "qwen3_5_moe": ("Qwen3.5-397B",
                    (0, 0.415, 0.500, 0.582, 0.651, 0.703, 0.755, 0.795, 0.828, 0.861, 0.882, 0.892, 0.894, 1)),
    "glm_moe_dsa": ("GLM-5.2",
                    (0, 0.303, 0.417, 0.501, 0.560, 0.610, 0.667, 0.713, 0.761, 0.822, 0.874, 0.902, 0.918, 1)),
    "gemma4": ("gemma-4-26B",
               (0, 0.213, 0.340, 0.511, 0.597, 0.670, 0.761, 0.785, 0.814, 0.858, 0.892, 0.909, 0.930, 1)),
    "olmoe": ("OLMoE", (0, 0.085, 0.136, 0.204, 0.283, 0.362, 0.460, 0.512, 0.574, 0.655, 0.740, 0.800, 0.870, 1)),
}  # fmt: skip
"""Hit rates while decoding, by the fraction of all experts in memory, as published (least recently used, or close)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates in bytes a second; direct: whether the disk's was measured past the page cache."""

    memory: float
    disk: float
    direct: bool


@dataclass(frozen=True, slots=True)
class HitRate:
    """An expected hit rate, 0..1, and where it comes from, in words."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds of a token that are spent on computing and on reading, partly at the same time; tokens a second."""

    compute_s: float
    read_s: float
    tok_s: float


def published(family: str, fraction: float) -> HitRate:
    """What was published for the family, or for models at large."""
    if fraction >= 1:
        return HitRate(1.0, "every expert fits")
    stem = next((key for key in _CURVES if family.startswith(key)), None)
    if stem is not None:
        name, curve = _CURVES[stem]
        return HitRate(_between(curve, fraction), f"published for {name}")
    values = [_between(curve, fraction) for _, curve in _CURVES.values()]
    return HitRate(sum(values) / len(values), "published for other models, on average")


def _between(curve: Sequence[float], fraction: float) -> float:
    at = max(1, bisect_left(_FRACTIONS, fraction))
    low, high = _FRACTIONS[at - 1], _FRACTIONS[at]
    return curve[at - 1] + (curve[at] - curve[at - 1]) * (fraction - low) / (high - low)


def by_chance(counts: npt.NDArray[np.integer], cap: int, top_k: int) -> float:
    """The hit rate of a least-recently-used cache of `cap` slots a layer if choices were independent of each other.

    counts: [layers, experts] of a history. By Che's approximation: an expert is in the cache if it was chosen within
    the last T choices, T such that `cap` of them were. Real choices repeat, so it is a lower bound.
    """
    hits = total = 0.0
    for row in counts:
        chosen = int(row.sum())
        if not chosen:
            continue
        rates = np.minimum(1.0, row / chosen * top_k)  # a token
        if np.count_nonzero(rates) <= cap:
            value = 1.0
        else:
            inside = 1 - np.exp(-rates * _characteristic_time(rates, cap))
            value = float((rates * inside).sum() / rates.sum())
        hits, total = hits + value * chosen, total + chosen
    return hits / total if total else 0.0


def _characteristic_time(rates: npt.NDArray[np.float64], cap: int) -> float:
    low, high = 0.0, 1.0
    while (1 - np.exp(-rates * high)).sum() < cap and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - np.exp(-rates * middle)).sum() < cap else (low, middle)
    return high


def measured(turns: Sequence[LoggedTurn], cap: int) -> HitRate | None:
    """The hit rate of the profile's turns with a cache of about this size, if there were enough."""
    like = [turn for turn in turns if turn.hits.total and abs(turn.cap - cap) <= _LIKE * cap]
    tokens = sum(turn.tokens for turn in like)
    if tokens < ENOUGH_TOKENS:
        return None
    hits = sum(turn.hits.pin + turn.hits.cache for turn in like)
    return HitRate(
        hits / sum(turn.hits.total for turn in like), f"measured in your last {len(like)} turns at this size"
    )


def expected(
    family: str,
    cap: int,
    experts: int,
    top_k: int,
    counts: npt.NDArray[np.integer] | None = None,
    turns: Sequence[LoggedTurn] = (),
) -> HitRate:
    """The best that can be said of a cache of `cap` slots a layer."""
    if cap >= experts:
        return HitRate(1.0, "every expert fits")
    own = measured(turns, cap)
    if own is not None:
        return own
    curve = published(family, cap / experts)
    if counts is not None and counts.sum():
        value = by_chance(counts, cap, top_k)
        if value > curve.value:
            return HitRate(value, f"from your history of {int(counts.sum()):,} choices")
    return curve


@dataclass(frozen=True, slots=True)
class Token:
    """What a token takes: bytes of the dense part, of the conversation's cache, and of the experts it uses; the experts
    among them that are missed, bytes of one, layers of the model."""

    dense: float
    cache: float
    experts: float
    misses: float
    expert: int
    layers: int


def forecast(token: Token, machine: Machine) -> Forecast:
    """The speed of decoding."""
    rate = machine.memory * EFFICIENCY
    attention = token.cache / (machine.memory * ATTENTION)
    dense = token.dense / rate + attention + token.layers * LAYER_S + TOKEN_S
    experts = token.experts / rate
    read = token.misses * token.expert / machine.disk
    return Forecast(dense + experts, read, 1 / (dense + max(experts, read) + token.misses * MISS_S))
