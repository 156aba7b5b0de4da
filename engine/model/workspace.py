"""The memory that a forward works in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..kernels.memory import Block

ALIGN = 64


def padded(size: int) -> int:
    """Bytes that a buffer takes."""
    return -(-size // ALIGN) * ALIGN


def total_bytes(sizes: Mapping[str, int]) -> int:
    """Bytes that all buffers take."""
    return sum(padded(size) for size in sizes.values())


class Workspace:
    """Named buffers in one block; `address[name]`, and numpy views of those that Python touches.

    sizes: bytes by name, for blocks of up to `rows` rows and so many threads (see `buffers`).
    """

    def __init__(self, sizes: Mapping[str, int], rows: int, threads: int) -> None:
        self.rows = rows
        self.thread_scratch = sizes["scratch"] // threads
        self._block = Block(total_bytes(sizes))
        self._offsets: dict[str, int] = {}
        offset = 0
        for name, size in sizes.items():
            self._offsets[name] = offset
            offset += padded(size)
        self.address = {name: self._block.address + at for name, at in self._offsets.items()}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any, skip: int = 0) -> npt.NDArray[Any]:
        """A view of a buffer, `skip` bytes in."""
        return self._block.array(self._offsets[name] + skip, shape, np.dtype(dtype))
