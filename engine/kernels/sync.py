"""Atomics and the barrier that the threads of a team meet at.

One native function runs on every thread of the team at once; the threads share work through an atomic counter
and meet at barriers. A barrier spins for a moment, because the next meeting is usually microseconds away, and then
sleeps in the kernel (futex), so that a core taken by somebody else costs that core and not the whole engine.

A team's sync block is four cache lines: arrivals, generation, sleepers, and work counters. There are several of those
for operations that follow each other without a barrier: each takes from its own (`counter`).
"""

from __future__ import annotations

import platform
import sys
import time
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .pointers import i64

LINE = 64
ARRIVED, GENERATION, SLEEPERS, WORK = 0, LINE, 2 * LINE, 3 * LINE
SYNC_BYTES = 4 * LINE
COUNTERS = LINE // 8
"""Work counters: so many operations can follow each other without a barrier."""

SPINS = 2000
"""Pauses before a waiting thread goes to sleep: 50 to 100 us, several times the usual wait."""

_LINUX_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX = _LINUX_FUTEX.get(platform.machine(), 0) if sys.platform == "linux" else 0
_X86 = platform.machine().lower() in ("x86_64", "amd64")
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_EVERYONE = 1 << 30

if _FUTEX:
    _syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 7))

    @njit(cache=True, nogil=True)
    def _sleep(address: int, seen: int) -> None:
        _syscall(_FUTEX, address, _WAIT_PRIVATE, seen & 0xFFFFFFFF, 0, 0, 0)

    @njit(cache=True, nogil=True)
    def _wake(address: int) -> None:
        _syscall(_FUTEX, address, _WAKE_PRIVATE, _EVERYONE, 0, 0, 0)

else:
    _sched_yield = types.ExternalFunction("sched_yield", types.int32())

    @njit(cache=True, nogil=True)
    def _sleep(address: int, seen: int) -> None:
        _sched_yield()

    @njit(cache=True, nogil=True)
    def _wake(address: int) -> None:
        pass


_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_MONOTONIC = time.CLOCK_MONOTONIC

_I64 = ir.IntType(64)


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


@intrinsic
def atomic_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to the int64 at an address; returns the value before. Sequentially consistent."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def atomic_load(typingctx: Any, address: Any) -> Any:
    """Load the int64 at an address, with acquire order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_pointer(builder, args[0]), "acquire", 8)

    return types.int64(types.int64), codegen


@intrinsic
def atomic_swap(typingctx: Any, address: Any, value: Any) -> Any:
    """Store into the int64 at an address; returns the value before. (llvmlite cannot emit an atomic store.)"""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("xchg", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _pause(typingctx: Any) -> Any:
    """Tell the core that this is a spin loop."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _X86:
            function_type = ir.FunctionType(ir.VoidType(), [])
            function = builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), function_type)
            builder.call(function, [])
        return context.get_dummy_value()

    return types.none(), codegen


@njit(cache=True, nogil=True)
def _reset(sync: int) -> None:
    counters = i64(sync + WORK)
    for number in range(COUNTERS):
        counters[number] = 0


@njit(cache=True, nogil=True)
def counter(sync: int, number: int) -> int:
    """What to hand to `take` so that it takes from another of the work counters."""
    return sync + 8 * number


@njit(cache=True, nogil=True)
def barrier(sync: int, threads: int) -> None:
    """Wait until all `threads` have arrived. The last one resets the work counters for the next pieces of work."""
    if threads == 1:
        _reset(sync)
        return
    generation = atomic_load(sync + GENERATION)
    if atomic_add(sync + ARRIVED, 1) == threads - 1:
        atomic_swap(sync + ARRIVED, 0)
        _reset(sync)
        atomic_add(sync + GENERATION, 1)
        if atomic_add(sync + SLEEPERS, 0) > 0:
            _wake(sync + GENERATION)
        return
    for _ in range(SPINS):
        if atomic_load(sync + GENERATION) != generation:
            return
        _pause()
    atomic_add(sync + SLEEPERS, 1)
    while atomic_load(sync + GENERATION) == generation:
        _sleep(sync + GENERATION, generation)
    atomic_add(sync + SLEEPERS, -1)


@njit(cache=True, nogil=True)
def nanoseconds(timespec: int) -> int:
    """The monotonic clock; `timespec` is the address of two int64 it may use."""
    _clock_gettime(_MONOTONIC, timespec)
    cells = i64(timespec)
    return cells[0] * 1_000_000_000 + cells[1]


@njit(cache=True, nogil=True)
def take(sync: int, items: int) -> int:
    """Take the next `items` pieces of the work at hand; returns the index of the first. sync: as from `counter`."""
    return atomic_add(sync + WORK, items)
