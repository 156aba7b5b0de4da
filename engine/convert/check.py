"""How far a container is from the model it was made of, measured on texts.

Both models are opened one after the other; the first one's logits wait in a temporary file, so that memory is that of
one engine. Over every position of every prompt:

    KL = sum over tokens of p log(p / q), p the source's distribution and q the container's       (nats)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..engine import Engine
from ..options import EngineOptions

Floats = npt.NDArray[np.float32]
Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Quality:
    """positions: how many were compared. kl, kl_95: mean and 95th percentile of the divergence, in nats. agreement:
    share of positions with the same most likely token. perplexity: of the prompts by the source, and the container."""

    positions: int
    kl: float
    kl_95: float
    agreement: float
    perplexity: tuple[float, float]


def compare(
    src: Path,
    dst: Path,
    prompts_of: Callable[[Engine], Prompts],
    options: EngineOptions,
    progress: Callable[[str, int, int], None],
) -> Quality:
    """Compare the model `dst` with the model `src`. Raises EngineError when one of them cannot be opened.

    prompts_of: the prompts as ids, at least one of two ids or more; asked of the source. Nothing is learned.
    """
    options = replace(options, learn=False, pin="off", history=None)
    with tempfile.TemporaryFile() as kept:
        with Engine.open(src, options) as engine:
            prompts = [list(prompt) for prompt in prompts_of(engine)]
            for number, prompt in enumerate(prompts):
                progress("reading prompts with the source", number, len(prompts))
                engine.logits(prompt).tofile(kept)
            vocab = engine.spec.vocab
        kept.seek(0)
        divergences, same, losses = [], [], []
        with Engine.open(dst, options) as engine:
            for number, prompt in enumerate(prompts):
                progress("reading prompts with the container", number, len(prompts))
                for row, (p, q) in enumerate(_rows(kept, engine.logits(prompt), vocab)):
                    divergences.append(float(np.sum(np.exp(p) * (p - q))))
                    same.append(p.argmax() == q.argmax())
                    if row + 1 < len(prompt):
                        losses.append((float(p[prompt[row + 1]]), float(q[prompt[row + 1]])))
    before, after = np.exp(-np.mean(losses, axis=0))
    return Quality(
        len(divergences),
        float(np.mean(divergences)),
        float(np.quantile(divergences, 0.95)),
        float(np.mean(same)),
        (float(before), float(after)),
    )


def _rows(kept: BinaryIO, logits: Floats, vocab: int) -> Iterator[tuple[npt.NDArray[np.float64], ...]]:
    """Log probabilities (source, container) of one position after another."""
    for row in logits:
        stored = np.frombuffer(kept.read(4 * vocab), np.float32)
        yield _log_softmax(stored), _log_softmax(row)


def _log_softmax(logits: Floats) -> npt.NDArray[np.float64]:
    values = logits.astype(np.float64)
    values -= values.max()
    values -= np.log(np.exp(values).sum())
    return values
