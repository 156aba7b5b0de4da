"""Reads that the system does while this thread goes on: Linux's asynchronous direct reads.

A read that another thread does costs two wake-ups and the interpreter's lock several times, together longer than the
disk takes for a few pages. These cost a system call when they begin and another one when somebody waits for them. They
serve small reads; for large ones, which keep the system busy while they begin, threads are better.

The calls have no entry in the C library, so they are made by number: see io_setup(2), io_submit(2), io_getevents(2).
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from typing import Any, Final, NamedTuple, Self


class _Numbers(NamedTuple):
    setup: int
    destroy: int
    getevents: int
    submit: int


_MACHINES: Final = {"x86_64": _Numbers(206, 207, 208, 209), "aarch64": _Numbers(0, 1, 4, 2)}
_NUMBERS: Final = _MACHINES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None

_BLOCK: Final = struct.Struct("=QIIHhIQQqQII")
"""struct iocb: data, key, flags, opcode, priority, file, address, length, offset, reserved, flags, event file."""

_EVENT: Final = struct.Struct("=QQqq")
"""struct io_event: data, the block's address, result, second result."""

_READ: Final = 0  # IOCB_CMD_PREAD

_long, _pointer = ctypes.c_long, ctypes.c_void_p


class Ended(NamedTuple):
    """A read that has ended: what it was called, and how many bytes it got; below 0: minus the error's number."""

    number: int
    got: int


class AsyncReads:
    """At most `depth` reads under way. One thread calls the methods."""

    def __init__(self, depth: int, context: int) -> None:
        """Use `open`. context: as from the system."""
        assert _NUMBERS is not None
        self.under_way = 0
        self._numbers = _NUMBERS
        self._context = _long(context)
        self._blocks = ctypes.create_string_buffer(depth * _BLOCK.size)
        first = ctypes.addressof(self._blocks)
        places = [first + at * _BLOCK.size for at in range(depth)]
        self._list = (_pointer * depth)(*places)  # what io_submit is handed: addresses of addresses
        self._at = [_pointer(ctypes.addressof(self._list) + at * ctypes.sizeof(_pointer)) for at in range(depth)]
        self._place = {address: at for at, address in enumerate(places)}
        self._free = list(range(depth))
        self._events = ctypes.create_string_buffer(depth * _EVENT.size)
        self._depth, self._one, self._none = _long(depth), _long(1), _long(0)
        self._no_time = (_long * 2)(0, 0)
        # What takes microseconds keeps the interpreter's lock: getting it back may take longer than that.
        self._quick, self._waiting = _syscall(ctypes.PyDLL), _syscall(ctypes.CDLL)

    @classmethod
    def open(cls, depth: int) -> Self | None:
        """Ask the system for such reads; None where it has none, or no more."""
        if _NUMBERS is None:
            return None
        context = ctypes.c_ulong(0)
        if _syscall(ctypes.PyDLL)(_long(_NUMBERS.setup), _long(depth), ctypes.byref(context)) != 0:
            return None
        return cls(depth, context.value)

    def begin(self, number: int, fd: int, offset: int, nbytes: int, address: int) -> bool:
        """Start to read into memory, which must stay until the read has ended; False if the system does not take it.

        number: what `ended` calls it. All but the number must be aligned, as for any direct read.
        """
        if not self._free:
            return False
        at = self._free.pop()
        _BLOCK.pack_into(
            self._blocks, at * _BLOCK.size, number, 0, 0, _READ, 0, fd, address, nbytes, offset, 0, 0, 0
        )  # fmt: skip
        if self._quick(_long(self._numbers.submit), self._context, self._one, self._at[at]) != 1:
            self._free.append(at)
            return False
        self.under_way += 1
        return True

    def ended(self, wait: bool) -> list[Ended]:
        """The reads that have ended since; with `wait`, at least one if any is under way."""
        if not self.under_way:
            return []
        call, least, time = (self._waiting, self._one, None) if wait else (self._quick, self._none, self._no_time)
        while True:
            got = call(_long(self._numbers.getevents), self._context, least, self._depth, self._events, time)
            if got >= 0:
                break
            if (code := ctypes.get_errno()) != errno.EINTR:
                raise OSError(code, "asynchronous reads cannot be waited for")
        result = []
        for event in range(got):
            number, block, read, _ = _EVENT.unpack_from(self._events, event * _EVENT.size)
            self._free.append(self._place[block])
            result.append(Ended(number, read))
        self.under_way -= got
        return result

    def close(self) -> None:
        """Wait for what is under way, and give everything back."""
        self._waiting(_long(self._numbers.destroy), self._context)


def _syscall(library: type[ctypes.CDLL]) -> Any:
    """The C library's `syscall`. PyDLL keeps the interpreter's lock, CDLL lets other threads run."""
    call = library(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call
