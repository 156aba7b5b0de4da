"""A team of threads that run one native function together.

Python threads rather than numba's `prange`: its threading layers either spin (and collapse when a core is taken), or
abort the process when two threads use them at once. The members never come back to the interpreter, whose lock they
would have to wait for: they take their work from native boxes, one dispatch runs a whole piece of the forward pass on
all of them, and they meet inside it at native barriers (see `sync`).
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numba import types

from .sync import LINE, SYNC_BYTES, attend, dismiss, post


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


def entry(function: Any) -> int:
    """Address of a compiled function of four int64 that returns one, as `Team.run` takes it; compiles it if need be.

    The function must be compiled with nogil, must not raise, and must end with a barrier.
    """
    signature = (types.int64,) * 4
    function.compile(signature)
    compiled = function.overloads[signature]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
    return address


class Team:
    """`threads` threads, the caller being number 0.

    `run(function, job)` calls `function(job, sync, threads, number)` on each thread and returns thread 0's result.
    function: as from `entry`. job: an int64, usually an address.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        block = np.zeros(SYNC_BYTES + threads * LINE, np.uint8)
        self._block = block  # keeps the memory alive
        self._sync = int(-(-block.ctypes.data // LINE) * LINE)
        self._boxes = self._sync + SYNC_BYTES
        self._members = [
            Thread(
                target=attend,
                args=(self._boxes + (number - 1) * LINE, self._sync, number),
                name=f"compute-{number}",
                daemon=True,
            )
            for number in range(1, threads)
        ]
        for member in self._members:
            member.start()

    def run(self, function: int, job: int, threads: int | None = None) -> int:
        """Run on the first `threads` threads, all by default; returns when the caller's share is done."""
        return int(post(self._boxes, function, job, self._sync, threads or self.threads))

    def close(self) -> None:
        """End the threads."""
        for number in range(len(self._members)):
            dismiss(self._boxes + number * LINE)
        for member in self._members:
            member.join()
