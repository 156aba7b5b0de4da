"""ROUTE_TRACE: every routing decision as one line of text, in colibrì's format, to the byte.

    <call> <row> <layer> <id>:<gate> <id>:<gate> ...

`call` counts MoE calls from 0 over the life of the trace: one value per layer and forward, shared by the
rows of that forward. Gates are the factors really applied, printed `%.4f`, in the order in which they
were selected.

A trace is complete or absent: its first write error ends it and removes the file, and the chat goes on. Whole
calls are written at once, so that even a killed process leaves no half line behind.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from ..files import reason

_BUFFER = 1 << 20
"""Bytes gathered before they are written without being asked to."""


class RouteTrace:
    """Writes a route trace.

    failed: why tracing ended early, one line; None while it goes well.
    """

    def __init__(self, path: Path) -> None:
        """Start the trace at `path`; what was there is gone. Raises EngineError when it cannot be opened."""
        self.path = path
        self.failed: str | None = None
        self._call = 0
        self._lines: list[str] = []
        self._size = 0
        self._pairs: list[str] = []
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise EngineError(f"{path}: the route trace cannot be written ({reason(error)})") from error
        self._removable = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def write(
        self,
        layer: int,
        ids: npt.NDArray[np.int32],
        weights: npt.NDArray[np.float32],
        kept: npt.NDArray[np.int32],
    ) -> None:
        """Trace one MoE call: the rows of one forward in one layer.

        layer: absolute index. ids, weights: [rows, k], in selection order. kept: [rows], how many are used.
        """
        if self._file.closed:
            return
        while len(self._pairs) <= ids.shape[1]:
            self._pairs.append(" %d:%.4f" * len(self._pairs) + "\n")
        rows = zip(ids.tolist(), weights.tolist(), kept.tolist(), strict=True)
        for row, (row_ids, row_weights, count) in enumerate(rows):
            values: list[float] = [0] * (2 * count)
            values[::2] = row_ids[:count]
            values[1::2] = row_weights[:count]
            line = f"{self._call} {row} {layer}" + self._pairs[count] % tuple(values)
            self._lines.append(line)
            self._size += len(line)
        self._call += 1
        if self._size >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered; called at the end of a turn. Never raises: see `failed`."""
        rest = memoryview("".join(self._lines).encode())
        self._lines.clear()
        self._size = 0
        if self._file.closed:
            return
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Write the rest and close the file. May be called twice."""
        self.flush()
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """End the trace: remove the file, unless the path leads to a device or a pipe."""
        self.failed = f"{self.path}: tracing stopped ({reason(error)})"
        try:
            self._file.close()
            if self._removable:
                self.path.unlink(missing_ok=True)
                self.failed += "; the incomplete file was removed"
        except OSError as second:
            self.failed += f"; the incomplete file could not be removed ({reason(second)})"
