"""What lossy switches cost and save: measured against the exact answer, token by token.

The exact model answers greedily. Then both models, the exact one and the limited one, read the same prompt and the same
reply, so that every position of the reply is judged with the same words before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..engine import Engine
from ..options import Lossy
from .recording import Recorder, Recording, as_turn, record_turn
from .replays import Room, Setting, figures_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """One reply, judged. positions: how many; agreed: where the limited model would have said the same; divergence:
    the sum of the KL divergences from the exact distribution, in nats; kept: experts a token and layer, mean of the
    reply's; bytes: read for a token of it, exact and limited, with an empty cache at the start."""

    positions: int
    agreed: int
    divergence: float
    kept: float
    exact_bytes: float
    limited_bytes: float


@dataclass(frozen=True, slots=True)
class Cost:
    """A limit, over all replies. agreement, saved: shares, 0..1. divergence: mean KL, nats. kept: mean experts."""

    topk: int | None
    topp: float | None
    positions: int
    agreement: float
    divergence: float
    kept: float
    exact_bytes: float
    limited_bytes: float

    @property
    def saved(self) -> float:
        """Share of the bytes a token that is no longer read."""
        return 1 - self.limited_bytes / self.exact_bytes if self.exact_bytes else 0.0


def judge_prompt(
    engine: Engine, ids: Sequence[int], tokens: int, limits: Sequence[Lossy], room: Room, policy: str
) -> list[Judged]:
    """Answer a prompt exactly and judge every limit on it; the engine is exact again afterwards. Raises EngineError."""
    _, reply, _ = record_turn(engine, ids, tokens)
    path = [*ids, *reply]
    setting = Setting(policy, room.cap(0))
    exact, exact_turn = _run(engine, path, len(ids))
    exact_bytes = figures_of(exact_turn, setting, room).bytes_a_token
    judged = []
    try:
        for limit in limits:
            engine.limit(limit)
            limited, turn = _run(engine, path, len(ids))
            agreed = int(np.count_nonzero(limited.argmax(axis=1) == np.asarray(reply)))
            kept = sum(int(np.diff(trace.rows)[len(ids) :].sum()) for trace in turn.layers.values())
            judged.append(
                Judged(
                    len(reply),
                    agreed,
                    float((np.exp(exact) * (exact - limited)).sum()),
                    kept / max(1, turn.tokens * len(turn.layers)),
                    exact_bytes,
                    figures_of(turn, setting, room).bytes_a_token,
                )
            )
    finally:
        engine.limit(Lossy())
    return judged


def cost_of(limit: Lossy, judged: Sequence[Judged]) -> Cost:
    """One limit's cost over several replies."""
    positions = sum(reply.positions for reply in judged)

    def mean(values: Sequence[float]) -> float:
        return float(np.average(values, weights=[reply.positions for reply in judged]))

    return Cost(
        limit.top_k,
        limit.top_p,
        positions,
        sum(reply.agreed for reply in judged) / positions,
        sum(reply.divergence for reply in judged) / positions,
        mean([reply.kept for reply in judged]),
        mean([reply.exact_bytes for reply in judged]),
        mean([reply.limited_bytes for reply in judged]),
    )


def _run(engine: Engine, path: Sequence[int], prompt: int) -> tuple[Floats, Recording]:
    """Log-probabilities for every position of the reply, [tokens, vocab], and the routing as a turn would have it."""
    recorder = Recorder(engine.spec.experts)
    logits = engine.logits(path[:-1], recorder, start=prompt - 1).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits, as_turn(recorder.recording(), prompt, engine.info.plan.chunk)
