"""The machine's own limit for a kernel: reading memory as fast as it goes, and doing nothing with it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiled import native
from .ir import LONG, Emitter, function, vector
from .isa import TARGET
from .memory import Block
from .pointers import i64
from .sync import barrier, take
from .team import Team, entry

_PIECE = 1 << 20
_LINE, _UNROLL = 64, 8


@intrinsic
def _sum_lines(typingctx: Any, address: Any, nbytes: Any) -> Any:
    """Sum of the int64 at an address over a multiple of 512 bytes, 64 bytes at a time."""

    def write(e: Emitter, start: Any, count: Any) -> Any:
        lanes = vector(LONG, _LINE // 8)

        def body(i: Any, sums: list[Any]) -> list[Any]:
            return [
                e.b.add(total, e.load(lanes, e.offset(start, e.offset(i, n * _LINE)))) for n, total in enumerate(sums)
            ]

        zero = ir.Constant(lanes, [0] * (_LINE // 8))
        sums = e.loop(e.long(0), count, _LINE * _UNROLL, [zero] * _UNROLL, body)
        total = sums[0]
        for part in sums[1:]:
            total = e.b.add(total, part)
        return e.b.extract_element(total, ir.Constant(ir.IntType(32), 0))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(function(builder.module, TARGET, "colibri_sum_lines", 2, LONG, write), args)

    return types.int64(types.int64, types.int64), codegen


@native
def _read_all(job: int, sync: int, threads: int, number: int) -> int:
    """job: address of two int64, where to read and how many bytes."""
    total, address = 0, i64(job)[0]
    pieces = i64(job)[1] // _PIECE
    while True:
        piece = take(sync, 1)
        if piece >= pieces:
            break
        total += _sum_lines(address + piece * _PIECE, _PIECE)
    barrier(sync, threads)
    return total


def memory_read_rate(team: Team, address: int, nbytes: int, seconds: float = 0.5) -> float:
    """Bytes a second that the team's threads read together: the best of several reads of this memory.

    It has been written to, and is larger than the caches.
    """
    read_all, job = entry(_read_all), np.array([address, _PIECE], np.int64)
    team.run(read_all, job.ctypes.data)
    job[1] = nbytes
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        before = time.perf_counter()
        team.run(read_all, job.ctypes.data)
        best = max(best, nbytes // _PIECE * _PIECE / (time.perf_counter() - before))
    return best


def fresh_read_rate(team: Team, megabytes: int) -> float:
    """The same of so much memory, taken for this."""
    block = Block(megabytes << 20)
    block.array(0, (block.nbytes,), np.dtype(np.uint8))[:] = 1  # else the system has not given it yet
    return memory_read_rate(team, block.address, block.nbytes)
