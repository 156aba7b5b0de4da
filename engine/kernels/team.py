"""A team of threads that run one native function together.

Python threads rather than numba's `prange`: its threading layers either spin (and collapse when a core is taken), or
abort the process when two threads use them at once. Each member waits on a queue; one dispatch runs a whole piece of
the forward pass on all of them, and they meet inside it at native barriers (see `sync`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from .sync import LINE, SYNC_BYTES


def physical_cores() -> int:
    """Cores this process may use, hyperthreads counted once where the system tells."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    seen: set[str] = set()
    for cpu in allowed:
        try:
            siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            seen.add(siblings.read_text(encoding="ascii"))
        except OSError:
            return len(allowed)
    return max(1, len(seen))


Job = tuple[Callable[..., Any], tuple[Any, ...], int]
"""A function, its arguments, and how many threads run it."""


class Team:
    """`threads` threads, the caller being number 0.

    `run(function, *args)` calls `function(*args, sync, threads, number)` on each thread and returns thread 0's
    result. The function must be compiled with nogil, must not raise, and must end with a barrier.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        block = np.zeros(SYNC_BYTES + LINE, np.uint8)
        self._block = block  # keeps the memory alive
        self.sync = int(-(-block.ctypes.data // LINE) * LINE)
        self._queues: list[SimpleQueue[Job | None]] = [SimpleQueue() for _ in range(threads - 1)]
        self._members = [
            Thread(target=self._serve, args=(number + 1, queue), name=f"compute-{number + 1}", daemon=True)
            for number, queue in enumerate(self._queues)
        ]
        for member in self._members:
            member.start()

    def _serve(self, number: int, queue: SimpleQueue[Job | None]) -> None:
        while (job := queue.get()) is not None:
            function, args, count = job
            function(*args, self.sync, count, number)

    def run(self, function: Callable[..., Any], *args: Any, threads: int | None = None) -> Any:
        """Run on the first `threads` threads, all by default; returns when the caller's share is done."""
        count = threads or self.threads
        for queue in self._queues[: count - 1]:
            queue.put((function, args, count))
        return function(*args, self.sync, count, 0)

    def close(self) -> None:
        """End the threads."""
        for queue in self._queues:
            queue.put(None)
        for member in self._members:
            member.join()
