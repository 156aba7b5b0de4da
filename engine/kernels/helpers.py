"""Processes that compile side by side, once per machine.

numba compiles one function at a time, holding a lock. So the work is given out, part by part, to processes which keep
what they compile in the cache folder; whoever needs it later loads it from there. They end with the process that
started them, whatever ends it, because they listen at a pipe that ends with it.

When one fails or is killed, for want of memory perhaps, all are ended: what is missing is then compiled where it is
needed, as if there had been none.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

from .cache import FOLDER_VARIABLE
from .parts import Part

_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from engine.kernels.helpers import serve; serve(int(sys.argv[1]))"

Compiled = Callable[[str], None]
"""Told the name of every function that has been compiled."""

COMPILED: Final = "compiled"
DONE: Final = "done"


def compile_parts(parts: Sequence[Part], processes: int, folder: Path, compiled: Compiled) -> bool:
    """Compile parts in so many processes, into a cache folder; whether all could be compiled and kept."""
    with ExitStack() as stack:
        try:
            pipes = [_start(stack, folder) for _ in range(processes)]
        except OSError:
            return False
        crew = _Crew(parts, pipes)
        while crew.busy:
            ready = wait(list(crew.busy))
            for pipe in [pipe for pipe in crew.busy if pipe in ready]:
                try:
                    kind, name = pipe.recv()
                except (EOFError, OSError):  # it has ended
                    return False
                if kind == COMPILED:
                    compiled(name)
                else:
                    crew.is_done(pipe)
        return not crew.waiting


def _start(stack: ExitStack, folder: Path) -> Connection:
    """Start a process that ends with the stack."""
    ours, theirs = Pipe()
    stack.callback(ours.close)
    search = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109 - text, as in sys.path
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, str(theirs.fileno()), *search],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # whoever compiles it again will say what is wrong
            pass_fds=[theirs.fileno()],
            env={**os.environ, FOLDER_VARIABLE: str(folder)},
        )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return ours


class _Crew:
    """Who does what. waiting: parts that nobody has begun. busy: process -> its part."""

    def __init__(self, parts: Sequence[Part], pipes: Sequence[Connection]) -> None:
        self.waiting, self._done = list(parts), set[str]()
        self._idle, self.busy = list(pipes), dict[Connection, Part]()
        self._give_out()

    def is_done(self, pipe: Connection) -> None:
        """A process has done its part."""
        self._done.add(self.busy.pop(pipe).name)
        self._idle.append(pipe)
        self._give_out()

    def _give_out(self) -> None:
        for part in [part for part in self.waiting if self._done.issuperset(part.after)][: len(self._idle)]:
            pipe = self._idle.pop()
            with suppress(OSError):  # it has ended, which is heard next
                pipe.send((part.module, part.function))
            self.waiting.remove(part)
            self.busy[pipe] = part


def serve(descriptor: int) -> None:
    """Be such a process, at the other end of an inherited pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of the pipe tells
    pipe = Connection(descriptor)
    parts: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, parts), daemon=True).start()
    from .listening import listening

    with listening(lambda name: pipe.send((COMPILED, name))):
        while True:
            module, function = parts.get()
            compile_part: Callable[[], Any] = getattr(import_module(module), function)
            compile_part()
            pipe.send((DONE, function))


def _listen(pipe: Connection, parts: queue.SimpleQueue[tuple[str, str]]) -> None:
    while True:
        try:
            parts.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)
