"""Choosing the next token from logits: repetition penalty, temperature, nucleus, one random number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import EngineError

REPETITION_WINDOW = 256
"""How many of the latest ids the repetition penalty looks at."""

_SELECTED = 1024
"""How many of the largest weights are tried as nucleus before all are."""

_BLOCK = 1024
"""Weights are summed in blocks of this many."""

_RANGES = {"temperature": (0.0, 100.0), "nucleus": (0.0, 1.0), "repetition": (0.1, 10.0)}


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an answer is drawn.

    max_tokens: None = until an end-of-sequence token or the end of the context.
    temperature: 0 = greedy.
    nucleus: sample among the most probable tokens that together hold this share of the probability; 1 = all.
    seed: makes an answer reproducible; None = different every time.
    repetition: divides the logits of recent tokens, multiplies negative ones; 1 = off (Keskar et al. 2019, 4.1).

    Raises EngineError for a value out of range.
    """

    max_tokens: int | None = None
    temperature: float = 0.7
    nucleus: float = 0.95
    seed: int | None = None
    repetition: float = 1.0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:  # not true for NaN either
                raise EngineError(f"sampling: {name} {value:g} is outside {low:g}..{high:g}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise EngineError(f"sampling: max tokens {self.max_tokens} is less than 1")
        if self.seed is not None and self.seed < 0:
            raise EngineError(f"sampling: seed {self.seed} is negative")


class Sampler:
    """Draws tokens for one answer. The same seed and logits give the same tokens."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._random = np.random.default_rng(sampling.seed)
        # Two vocabularies of scratch: fresh ones for every token would mostly cost page faults.
        self._logits, self._scratch = np.zeros((2, 0), np.float32)

    def sample(self, logits: npt.NDArray[np.float32], recent: Sequence[int]) -> int:
        """Return the next id. `logits` is float32 [V] and not changed; `recent` are the ids so far, latest last.

        Raises EngineError when the logits hold NaN or infinity: the model's files or its computation are broken.
        """
        if len(self._logits) != len(logits):
            self._logits, self._scratch = np.empty((2, len(logits)), np.float32)
        values = self._logits
        np.copyto(values, logits)
        self._penalise(values, recent)
        best = int(np.argmax(values))  # the lowest id on ties; a NaN if there is one
        if not np.isfinite(values[best]):
            raise EngineError(
                f"the model computed {values[best]} as logit of token {best}; check its files with "
                "'colibri-tui doctor MODEL'"
            )
        if self.sampling.temperature == 0.0:
            return best
        values -= values[best]
        with np.errstate(over="ignore"):  # what a small temperature sends to -inf has probability 0
            values /= np.float32(max(self.sampling.temperature, 1e-6))
        weights = np.exp(values, out=values)
        candidates = _nucleus(weights, self.sampling.nucleus, self._scratch)
        weights = weights[candidates]
        return int(candidates[_position(weights, self._random.random() * _sum(weights), "right")])

    def _penalise(self, logits: npt.NDArray[np.float32], recent: Sequence[int]) -> None:
        """Apply the repetition penalty in place."""
        penalty = self.sampling.repetition
        if penalty == 1.0:
            return
        ids = np.array(sorted({i for i in recent[-REPETITION_WINDOW:] if 0 <= i < len(logits)}), np.intp)
        seen = logits[ids]
        logits[ids] = np.where(seen > 0, seen / penalty, seen * penalty)


def _nucleus(weights: npt.NDArray[np.float32], share: float, scratch: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """Return, ascending, the indices of the fewest largest weights that hold `share` of the sum.

    Lower indices first on ties; at least one. Values are selected before they are sorted, all of them only if the
    largest few do not suffice, and indices are looked up at the end: values alone are an order of magnitude faster.
    `scratch` is as long as `weights` and overwritten.
    """
    if share >= 1.0:
        return np.flatnonzero(weights)
    target = share * _sum(weights)
    np.copyto(scratch, weights)
    scratch.partition(max(0, len(scratch) - _SELECTED))
    largest = scratch[-_SELECTED:]
    if _sum(largest) < target:
        largest = scratch
    largest.sort()
    largest = largest[::-1]
    last = _position(largest, target, "left")
    chosen = weights > largest[last]
    missing = last + 1 - int(np.count_nonzero(chosen))
    chosen[np.flatnonzero(weights == largest[last])[:missing]] = True
    return np.flatnonzero(chosen)


def _sum(weights: npt.NDArray[np.float32]) -> float:
    return float(weights.sum(dtype=np.float64))


def _position(weights: npt.NDArray[np.float32], target: float, side: Literal["left", "right"]) -> int:
    """Return the first index at which the running sum reaches ("left") or exceeds ("right") `target`.

    Sums whole blocks before it looks into one. Rounding can put the target past the end: the last index then.
    """
    starts = np.arange(0, len(weights), _BLOCK)
    totals = np.cumsum(np.add.reduceat(weights, starts, dtype=np.float64))
    block = min(int(np.searchsorted(totals, target, side)), len(totals) - 1)
    before = float(totals[block - 1]) if block else 0.0
    start = block * _BLOCK
    inside = before + np.cumsum(weights[start : start + _BLOCK], dtype=np.float64)
    return start + min(int(np.searchsorted(inside, target, side)), len(inside) - 1)
