"""What an engine makes of a case, and what it should: gathered the same way for every test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import Engine, EngineOptions, Token

EXPECTED = Path(__file__).parent / "expected"
GREEDY = 24

Routes = dict[int, tuple[npt.NDArray[Any], npt.NDArray[np.float32]]]
"""By layer: ids [rows, k] ascending, and the weights in that order."""


@dataclass(frozen=True)
class Answer:
    """Logits of the prompt, the greedy tokens after it, and the routing of both but for the last token."""

    logits: npt.NDArray[np.float32]
    greedy: list[int]
    routes: Routes


@dataclass(frozen=True)
class Expected:
    """A case's prompt and its right answer; `fingerprint` says for which state of the case it was computed."""

    fingerprint: str
    prompt: list[int]
    answer: Answer

    @classmethod
    def load(cls, name: str) -> Expected:
        """Read what make_expected has stored."""
        with np.load(EXPECTED / f"{name}.npz") as file:
            layers = sorted(int(key.split(".")[1]) for key in file if key.startswith("router_ids."))
            routes = {layer: (file[f"router_ids.{layer}"], file[f"router_weights.{layer}"]) for layer in layers}
            answer = Answer(file["logits"], file["greedy_ids"].tolist(), routes)
            return cls(str(file["fingerprint"]), file["input_ids"].tolist(), answer)


def greedy(engine: Engine, prompt: Sequence[int], tokens: int = GREEDY) -> list[int]:
    """The greedy answer, whatever its tokens."""
    events = engine.generate(prompt, max_tokens=tokens, ignore_eos=True)
    return [event.id for event in events if isinstance(event, Token)]


def routes(engine: Engine, ids: Sequence[int]) -> Routes:
    """What the routers decide over a sequence."""
    seen: dict[int, list[tuple[npt.NDArray[Any], npt.NDArray[np.float32]]]] = {}

    def listen(
        layer: int, chosen: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], kept: npt.NDArray[np.int32]
    ) -> None:
        assert (kept == chosen.shape[1]).all()
        order = np.argsort(chosen, axis=1)
        seen.setdefault(layer, []).append((np.take_along_axis(chosen, order, 1), np.take_along_axis(weights, order, 1)))

    engine.logits(ids, listen)
    return {
        layer: (np.concatenate([ids for ids, _ in blocks]), np.concatenate([weights for _, weights in blocks]))
        for layer, blocks in sorted(seen.items())
    }


def ask(folder: Path, prompt: Sequence[int], expected_greedy: Sequence[int], options: EngineOptions) -> Answer:
    """Open a checkpoint and ask all three questions. Routing is that of the answer which is expected."""
    with Engine.open(folder, options) as engine:
        return Answer(engine.logits(prompt), greedy(engine, prompt), routes(engine, [*prompt, *expected_greedy[:-1]]))


def logits_of(folder: Path, prompt: Sequence[int], options: EngineOptions) -> npt.NDArray[np.float32]:
    """Open a checkpoint and compute the logits of a prompt."""
    with Engine.open(folder, options) as engine:
        return engine.logits(prompt)
