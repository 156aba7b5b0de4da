"""Choosing the next token from logits: repetition penalty, temperature, nucleus, one random number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import EngineError

REPETITION_WINDOW = 256
"""How many of the latest ids the repetition penalty looks at."""

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
        self._logits = np.zeros(0, np.float32)
        from ..kernels.draw import draw  # brings numba, which a caller that only wants to say how to sample does not

        self._draw = draw

    def sample(self, logits: npt.NDArray[np.float32], recent: Sequence[int]) -> int:
        """Return the next id. `logits` is float32 [V] and not changed; `recent` are the ids so far, latest last.

        Raises EngineError when the logits hold NaN or infinity: the model's files or its computation are broken.
        """
        if len(self._logits) != len(logits):
            self._logits = np.empty(len(logits), np.float32)
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
        temperature = max(self.sampling.temperature, 1e-6)
        uniform = self._random.random()
        share = self.sampling.nucleus
        return int(self._draw(values.ctypes.data, len(values), float(values[best]), temperature, share, uniform))

    def _penalise(self, logits: npt.NDArray[np.float32], recent: Sequence[int]) -> None:
        """Apply the repetition penalty in place."""
        penalty = self.sampling.repetition
        if penalty == 1.0:
            return
        ids = np.array(sorted({i for i in recent[-REPETITION_WINDOW:] if 0 <= i < len(logits)}), np.intp)
        seen = logits[ids]
        logits[ids] = np.where(seen > 0, seen / penalty, seen * penalty)
