"""Atomics and the barrier that the threads of a team meet at.

One native function runs on every thread of the team at once; the threads share work through an atomic counter
and meet at barriers. A barrier spins for a moment, because the next meeting is usually microseconds away, and then
sleeps in the kernel (futex), so that a core taken by somebody else costs that core and not the whole engine.

A team's sync block is four cache lines: arrivals, generation, sleepers, and work counters. There are several of those
for operations that follow each other without a barrier: each takes from its own (`counter`).

Every member of a team but the first waits for work at a *box*, a cache line of its own, without the interpreter: what
is to be called, and how many jobs have been put there. It waits as at a barrier, so a member that is wanted again soon
is there at once, and one that is woken costs a system call.
"""

from __future__ import annotations

import platform
import sys
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiled import inner, native
from .pointers import i64

LINE = 64
ARRIVED, GENERATION, SLEEPERS, WORK = 0, LINE, 2 * LINE, 3 * LINE
SYNC_BYTES = 4 * LINE
COUNTERS = LINE // 8
"""Work counters: so many operations can follow each other without a barrier."""

SPINS = 2000
"""Pauses before a waiting thread goes to sleep: 50 to 100 us, several times the usual wait."""

SHORTEST = 4
"""Pieces that are worth a stream of their own, where one is a block of weights and read once."""

POSTED, ASLEEP, FUNCTION, JOB, THREADS = range(5)
"""Cells of a box: jobs posted so far, whether the member sleeps, the native function to call (0: go home), what to hand
to it, and how many threads run it."""

NAP_MAX_US = 5000
"""Where threads cannot wait for an address they look again after naps that grow to this."""

_LINUX_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX = _LINUX_FUTEX.get(platform.machine(), 0) if sys.platform == "linux" else 0
_X86 = platform.machine().lower() in ("x86_64", "amd64")
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_EVERYONE = 1 << 30

if _FUTEX:
    _syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 7))

    @inner
    def _sleep(address: int, seen: int, naps: int) -> None:
        _syscall(_FUTEX, address, _WAIT_PRIVATE, seen & 0xFFFFFFFF, 0, 0, 0)

    @inner
    def _wake(address: int) -> None:
        _syscall(_FUTEX, address, _WAKE_PRIVATE, _EVERYONE, 0, 0, 0)

else:
    _usleep = types.ExternalFunction("usleep", types.int32(types.uint32))

    @inner
    def _sleep(address: int, seen: int, naps: int) -> None:
        _usleep(min(20 * naps, NAP_MAX_US))

    @inner
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
def atomic_exchange(typingctx: Any, address: Any, expected: Any, value: Any) -> Any:
    """Store into the int64 at an address if it is what was expected; returns whether. Sequentially consistent."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.cmpxchg(_pointer(builder, args[0]), args[1], args[2], "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(types.int64, types.int64, types.int64), codegen


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


@inner
def _reset(sync: int) -> None:
    counters = i64(sync + WORK)
    for number in range(COUNTERS):
        counters[number] = 0


@inner
def counter(sync: int, number: int) -> int:
    """What to hand to `take` so that it takes from another of the work counters."""
    return sync + 8 * number


@inner
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
    _wait_while(sync + GENERATION, generation, sync + SLEEPERS)


@inner
def _wait_while(address: int, seen: int, sleepers: int) -> None:
    """Wait until the int64 at an address is another than `seen`; who sleeps is counted at `sleepers`.

    Whoever changes the value looks at `sleepers` afterwards, and wakes them.
    """
    for _ in range(SPINS):
        if atomic_load(address) != seen:
            return
        _pause()
    atomic_add(sleepers, 1)
    naps = 0
    while atomic_add(address, 0) == seen:
        naps += 1
        _sleep(address, seen, naps)
    atomic_add(sleepers, -1)


@intrinsic
def _call(typingctx: Any, function: Any, job: Any, sync: Any, threads: Any, number: Any) -> Any:
    """Call the native function at an address: int64 (job, sync, threads, number) -> int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64] * 4)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(*[types.int64] * 5), codegen


@native
def post(boxes: int, function: int, job: int, sync: int, threads: int) -> int:
    """Have `threads` threads call `function(job, sync, threads, number)`, this one as number 0; returns its result.

    boxes: of members 1, 2, ... Function must end with a barrier: then every member has read its box.
    """
    for number in range(1, threads):
        box = boxes + (number - 1) * LINE
        cells = i64(box)
        cells[FUNCTION], cells[JOB], cells[THREADS] = function, job, threads
        atomic_add(box, 1)
        if atomic_add(box + 8 * ASLEEP, 0) != 0:
            _wake(box)
    return _call(function, job, sync, threads, 0)


@native
def dismiss(box: int) -> None:
    """Let the member that waits at a box go home."""
    i64(box)[FUNCTION] = 0
    atomic_add(box, 1)
    _wake(box)


@native
def attend(box: int, sync: int, number: int) -> None:
    """Be member `number` of a team: do what is posted in the box until dismissed."""
    seen, cells = 0, i64(box)
    while True:
        _wait_while(box, seen, box + 8 * ASLEEP)
        seen = atomic_load(box)
        if cells[FUNCTION] == 0:
            return
        _call(cells[FUNCTION], cells[JOB], sync, cells[THREADS], number)


@inner
def nanoseconds(timespec: int) -> int:
    """The monotonic clock; `timespec` is the address of two int64 it may use."""
    _clock_gettime(_MONOTONIC, timespec)
    cells = i64(timespec)
    return cells[0] * 1_000_000_000 + cells[1]


@inner
def take(sync: int, items: int) -> int:
    """Take the next `items` pieces of the work at hand; returns the index of the first. sync: as from `counter`."""
    return atomic_add(sync + WORK, items)


@inner
def take_share(sync: int, pieces: int, threads: int, rows: int) -> tuple[int, int]:
    """Take a run of `pieces` pieces; returns its first and the one after its last, which are the same at the end.

    A run is a share of what is left: long at first, so that weights are read in long streams, and short at the end, so
    that nobody waits for long (guided self-scheduling, Polychronopoulos and Kuck 1987). rows: what a piece is computed
    for; with many of them the shortest runs can be shorter.
    """
    while True:
        first = atomic_load(sync + WORK)
        left = pieces - first
        if left <= 0:
            return pieces, pieces
        after = first + min(left, max(left // (2 * threads), 1, SHORTEST // rows))
        if atomic_exchange(sync + WORK, first, after):
            return first, after
