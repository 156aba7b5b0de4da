"""Records what the experts' routers chose in turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..engine import Engine
from ..events import Token, Turn
from ..experts.trace_reader import LayerTrace, linked


@dataclass(frozen=True, slots=True)
class Recording:
    """Turns in a row. layers: by index; all have the same forwards. ends: the number of forwards up to each turn's end.

    tokens: decoded, that is forwards of one row.
    """

    layers: dict[int, LayerTrace]
    ends: tuple[int, ...]
    tokens: int

    def counts(self, layers: int, experts: int) -> npt.NDArray[np.uint32]:
        """How often each expert was chosen, [layers, experts], as a history counts."""
        counts = np.zeros((layers, experts), np.uint32)
        for layer, trace in self.layers.items():
            counts[layer] = np.bincount(trace.ids, minlength=experts)
        return counts


class Recorder:
    """Told of every routing (`Engine.on_route`) of one turn."""

    def __init__(self, experts: int) -> None:
        self._experts = experts
        self._ids: dict[int, list[npt.NDArray[np.int32]]] = {}
        self._kept: dict[int, list[npt.NDArray[np.int32]]] = {}

    def __call__(
        self, layer: int, ids: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], kept: npt.NDArray[np.int32]
    ) -> None:
        """Take the rows of one forward in one layer."""
        self._ids.setdefault(layer, []).append(ids[np.arange(ids.shape[1]) < kept[:, None]].copy())
        self._kept.setdefault(layer, []).append(kept.copy())

    def recording(self) -> Recording:
        """What was recorded."""
        layers = {}
        for layer, parts in self._kept.items():
            rows = np.concatenate(([0], np.cumsum(np.concatenate(parts), dtype=np.int64)))
            calls = np.cumsum([0, *map(len, parts)])
            layers[layer] = LayerTrace(self._experts, calls, rows, np.concatenate(self._ids[layer]))
        first = next(iter(layers.values()))
        return Recording(linked(layers), (len(first.calls) - 1,), int(np.count_nonzero(np.diff(first.calls) == 1)))


def join(recordings: Iterable[Recording]) -> Recording:
    """Turns of several recordings, one after the other."""
    parts = list(recordings)
    before = np.cumsum([0, *(part.ends[-1] for part in parts)])
    ends = tuple(int(start + end) for start, part in zip(before, parts, strict=False) for end in part.ends)
    layers = {layer: _join([part.layers[layer] for part in parts]) for layer in parts[0].layers}
    return Recording(linked(layers), ends, sum(part.tokens for part in parts))


def _join(traces: Sequence[LayerTrace]) -> LayerTrace:
    def stitched(arrays: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        starts = np.cumsum([0, *(array[-1] for array in arrays)])
        pieces = [array[1:] + start for array, start in zip(arrays, starts, strict=False)]
        return np.concatenate(([0], *pieces)).astype(np.int64)

    return LayerTrace(
        traces[0].experts,
        stitched([trace.calls for trace in traces]),
        stitched([trace.rows for trace in traces]),
        np.concatenate([trace.ids for trace in traces]),
    )


def as_turn(recording: Recording, prompt: int, chunk: int) -> Recording:
    """The same rows as a turn has them: `prompt` rows in blocks of `chunk`, then one at a time."""
    layers = {}
    for layer, trace in recording.layers.items():
        rows = len(trace.rows) - 1
        calls = np.array([*range(0, prompt, chunk), *range(prompt, rows + 1)], np.int64)
        layers[layer] = trace._replace(calls=calls)
    return Recording(layers, (len(calls) - 1,), rows - prompt)


def record_turn(engine: Engine, ids: Sequence[int], tokens: int) -> tuple[Recording, list[int], Turn]:
    """Answer a prompt greedily in a conversation of its own; returns the routing, the reply's ids and the turn's sum.

    Raises EngineError.
    """
    recorder = Recorder(engine.spec.experts)
    engine.forget()
    engine.listener = recorder
    reply: list[int] = []
    summary: Turn | None = None
    try:
        for event in engine.generate(ids, max_tokens=tokens):
            if isinstance(event, Token):
                reply.append(event.id)
            elif isinstance(event, Turn):
                summary = event
    finally:
        engine.listener = None
    assert summary is not None
    return recorder.recording(), reply, summary
