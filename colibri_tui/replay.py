"""A recorded trace, token by token: where one stands, and what was used until then. Knows no screen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from colibri_tui.telemetry import Reads, Sample
from engine.board import Phase, Tier
from engine.errors import EngineError
from engine.events import Hits

_AT_ONCE = 4096
"""Frames that are counted together."""


class Replay:
    """Frames int16 [tokens, layers, width] (see `replay_host`). `position`: tokens that were replayed."""

    def __init__(self, frames: npt.NDArray[np.int16], layers: tuple[int, ...], experts: int) -> None:
        self._frames, self.layers, self.experts = frames, layers, experts
        self._heat = np.zeros((len(layers), experts), np.int64)
        self.position = 0

    def __len__(self) -> int:
        return len(self._frames)

    def seek(self, position: int) -> None:
        """Go to a place, on or back; beyond either end it is the end."""
        position = min(max(position, 0), len(self))
        if position > self.position:
            self._count(self.position, position, 1)
        else:
            self._count(position, self.position, -1)
        self.position = position

    def _count(self, first: int, last: int, sign: int) -> None:
        flat = self._heat.ravel()
        for begin in range(first, last, _AT_ONCE):
            ids = self._frames[begin : min(begin + _AT_ONCE, last)].astype(np.int64)
            cells = ids + np.arange(len(self.layers))[:, None] * self.experts
            flat += sign * np.bincount(cells[ids >= 0], minlength=flat.size)

    def sample(self) -> Sample:
        """Return it as the atlas takes it: heat so far, and the newest token's experts fired."""
        fired = np.zeros(self._heat.shape, np.bool_)
        if self.position:
            ids = self._frames[self.position - 1]
            layers, places = np.nonzero(ids >= 0)
            fired[layers, ids[layers, places]] = True
        nothing = Reads(Hits(), Hits(), 0)
        return Sample(
            layers=self.layers,
            heat=self._heat.astype(np.uint32),
            tier=np.full(self._heat.shape, Tier.DISK, np.uint8),
            fired=fired,
            resident=np.full(len(self.layers), np.nan),
            found=np.zeros((len(self.layers), 3), np.int64),
            clock=self.position,
            last_use=np.zeros(self._heat.shape, np.uint32),
            evictions=0,
            phase=Phase.IDLE,
            layer=0,
            prefill_done=0,
            prefill_total=0,
            context_used=0,
            tokens=self.position,
            tok_s=None,
            turn=nothing,
            ever=nothing,
        )


def read_trace(trace: Path, frames: Path, progress: Callable[[int, int], None]) -> Replay:
    """Turn a trace into a replay; `frames` is where its frames are kept. Blocks, so call it in a thread.

    progress: told of bytes read and bytes in all. Raises EngineError when it is no trace.
    """
    command = [sys.executable, "-m", "colibri_tui.replay_host", str(trace.absolute()), str(frames)]
    said: dict[str, object] = {}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=_home()
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            said = json.loads(line)
            if isinstance(said.get("done"), int) and isinstance(said.get("size"), int):
                progress(int(str(said["done"])), int(str(said["size"])))
    match said:
        case {"error": str(text)}:
            raise EngineError(text)
        case {"tokens": int(tokens), "layers": list(layers), "experts": int(experts), "width": int(width)} if tokens:
            shape = (tokens, len(layers), width)
            return Replay(np.memmap(frames, np.int16, "r", shape=shape), tuple(layers), experts)
    raise EngineError(f"{trace}: the trace could not be read; try `colibri-tui trace stats` on it")


def _home() -> Path:
    """Where `-m colibri_tui...` finds this very program."""
    return Path(__file__).parent.parent
