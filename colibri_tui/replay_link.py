"""Reads a trace and simulates caches in a process of its own (`replay_host`). Calls block: make them in a thread."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from colibri_tui.replay import Placement, Replay, Simulation
from engine.errors import EngineError


class ReplayLink:
    """A trace's child process and its files. Read first, then simulate, one call at a time; close from any thread."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._files = tempfile.TemporaryDirectory(prefix="colibri-replay-")
        self._folder = Path(self._files.name)
        command = [sys.executable, "-m", "colibri_tui.replay_host", str(trace.absolute()), self._files.name]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=_home()
        )
        self._number = 0

    def read(self, progress: Callable[[int, int], None], model: tuple[tuple[int, ...], int] | None = None) -> Replay:
        """Return the trace as a replay. Raises EngineError when it is no trace.

        progress: told of bytes read and bytes in all. model: layers with routers and experts of the loaded one: a trace
        that can be its own has as many experts; otherwise as many as are named in it.
        """
        while True:
            match self._hear():
                case {"done": int(done), "size": int(size)}:
                    progress(done, size)
                case {"tokens": int(tokens), "layers": list(layers), "experts": int(experts), "width": int(width)}:
                    break
                case _:
                    raise self._failure()
        if not tokens:
            raise self._failure()
        if model is not None and set(layers) <= set(model[0]):
            experts = max(experts, model[1])
        try:
            frames = np.memmap(self._folder / "frames", np.int16, "r", shape=(tokens, len(layers), width))
        except OSError as error:
            raise self._failure() from error
        return Replay(frames, tuple(layers), experts)

    def simulate(self, replay: Replay, placement: Placement) -> Simulation:
        """Return what a placement would have held. Raises EngineError when that fails."""
        self._number += 1
        name = f"simulation-{self._number}"
        self._tell(
            {
                "name": name, "policy": placement.policy, "cap": placement.cap, "experts": replay.experts,
                "pinned": placement.pinned,
            }
        )  # fmt: skip
        changes = self._hear().get("changes")
        if not isinstance(changes, int):
            raise self._failure()
        try:
            return self._load(name, replay, placement, changes)
        except OSError as error:  # such as a screen that was closed meanwhile
            raise self._failure() from error

    def _load(self, name: str, replay: Replay, placement: Placement, changes: int) -> Simulation:
        tokens, layers, path = len(replay), len(replay.layers), self._folder / name
        pinned = np.zeros((layers, replay.experts), np.bool_)
        for layer, expert in placement.pinned:
            if layer in replay.layers:
                pinned[replay.layers.index(layer), expert] = True
        simulation = Simulation(
            placement,
            pinned,
            np.fromfile(path.with_suffix(".changes"), np.int32, changes),
            np.fromfile(path.with_suffix(".ends"), np.int64, tokens + 1),
            np.memmap(path.with_suffix(".counts"), np.uint16, "r", shape=(tokens, layers, 3)),
            np.fromfile(path.with_suffix(".decode"), np.bool_, tokens),
        )
        for file in self._folder.glob(f"{name}.*"):
            file.unlink()  # what is mapped stays as long as it is
        return simulation

    def close(self) -> None:
        """End the child, and remove the files."""
        self._child.kill()
        self._child.wait()
        self._files.cleanup()

    def _tell(self, request: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except OSError as error:
            raise self._failure() from error

    def _hear(self) -> dict[str, Any]:
        """Return what the child says next; nothing when it has ended. Raises EngineError with what it complains of."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        said: dict[str, Any] = json.loads(line if line.endswith(b"\n") else b"{}")
        if isinstance(text := said.get("error"), str):
            raise EngineError(text)
        return said

    def _failure(self) -> EngineError:
        return EngineError(f"{self._trace}: the trace could not be replayed; try `colibri-tui trace stats` on it")


def _home() -> Path:
    """Where `-m colibri_tui...` finds this very program."""
    return Path(__file__).parent.parent
