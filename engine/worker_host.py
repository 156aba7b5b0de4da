"""The engine's process: the other end of `engine.worker`.

The main thread owns the engine and does one command after another. A listener thread reads the pipe, so that
a stop is heard in the middle of a forward. The process ends in three ways: it is asked to close, it gets
SIGTERM or SIGHUP, or the pipe ends because the parent is gone; each time the running turn is stopped and the engine
closed, which saves what was learned. While the model is still loading there is nothing to save: it leaves.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Final

from .errors import EngineError
from .events import Counted, Event, HistoryUsed, Hits, Notice, Turn
from .obituary import one_line
from .wire import (
    Between,
    Chat,
    Close,
    Command,
    Complete,
    Count,
    DrawCurve,
    Failure,
    Forget,
    LoadState,
    Open,
    Opened,
    SaveState,
    Stop,
    Tagged,
    UseHistory,
)
from .worker import EngineLike, find_factory, state_event

_ORPHAN_GRACE_S: Final = 1.5  # to save and leave once the parent is gone
_STOP_AGAIN_S: Final = 0.05
_IDLE: Final = 19  # the niceness of what the engine's own threads must not wait for
_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE: Final = "500"  # of -1000 (never) to 1000 (always)
_AUTOGROUP: Final = Path("/proc/self/autogroup")


def serve(descriptor: int) -> None:
    """Run the engine's process over an inherited socket, to the end. The first message is an `Open`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    faulthandler.enable()
    sys.exit(Host(Connection(descriptor)).run())


def give_way(niceness: int) -> None:
    """Let the screen, and all else that a person uses, have the processor first.

    Where Linux shares time among sessions before it does so among the processes of each (autogroup, as on most
    desktops), niceness counts within the session only, and this process has one of its own: so the session is nice too.
    """
    os.nice(niceness)
    with suppress(OSError):  # there are no such groups
        _AUTOGROUP.write_text(str(niceness))


class Host:
    """One engine behind one pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._commands: queue.SimpleQueue[Chat | Complete | Between | None] = queue.SimpleQueue()
        self._engine: EngineLike | None = None
        self._running = 0  # the turn that is being computed
        self._stopped = 0  # the last turn that a stop was asked for
        self._ending = False
        self._exit_code = 0
        self._sending = threading.Lock()
        self._drawing: threading.Thread | None = None

    def run(self) -> int:
        """Load, answer until asked to end, close. Returns the exit code."""
        first = self._pipe.recv()
        assert isinstance(first, Open)
        give_way(first.niceness)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._terminated)
        _end_with_parent()
        _die_first()
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        opener = find_factory(first.factory)
        try:
            engine = opener(first.path, first.options, progress=lambda event: self._tell(0, event), shared_board=True)
        except EngineError as error:
            self._tell(0, Failure(type(error).__name__, one_line(str(error))))
            return 1
        self._engine = engine
        try:
            self._send(Opened(engine.info, engine.defaults, engine.board.name))
            while (command := self._commands.get()) is not None:
                if isinstance(command, Chat | Complete):
                    self._answer(engine, command)
                else:
                    self._between(engine, command)
        finally:
            engine.close()
        return self._exit_code

    def _answer(self, engine: EngineLike, command: Chat | Complete) -> None:
        turn = command.turn
        self._running = turn
        try:
            if self._ending or self._stopped == turn:  # asked for before it began
                self._tell(turn, _unbegun())
                return
            summary: Event | None = None
            chat = isinstance(command, Chat)
            for event in engine.generate(_prompt(engine, command), chat=chat, **asdict(command.sampling)):
                if isinstance(event, Turn):
                    summary = event  # an error may follow it, and then ends the turn in its place
                else:
                    self._tell(turn, event)
            if summary is not None:
                self._tell(turn, summary)
        except EngineError as error:
            self._tell(turn, Failure(type(error).__name__, one_line(str(error))))
        finally:
            self._running = 0

    def _between(self, engine: EngineLike, command: Between) -> None:
        """Do what is not a turn."""
        try:
            match command:
                case SaveState(path, most):
                    self._tell(0, state_event("saved", path, lambda: engine.save_state(path, most)))
                case LoadState(path):
                    self._tell(0, state_event("loaded", path, lambda: engine.load_state(path)))
                case Forget():
                    engine.forget()
                case UseHistory(path, learn):
                    for text in engine.repin_for(path, learn):
                        self._tell(0, Notice(one_line(text)))
                    self._tell(0, HistoryUsed(int(engine.board.heat.sum())))
        except EngineError as error:
            self._tell(0, Notice(one_line(str(error))))

    def _listen(self) -> None:
        while True:
            try:
                # A stop between the start of a turn and the start of `generate` is forgotten: say it again.
                while self._stop_wanted() and not self._pipe.poll(_STOP_AGAIN_S):
                    self._stop_engine()
                command: Command = self._pipe.recv()
            except (EOFError, OSError):
                # Nobody is left to kill us: a timer that needs no interpreter lock makes sure of the end.
                faulthandler.dump_traceback_later(_ORPHAN_GRACE_S, exit=True)
                self._end(0)
                return
            match command:
                case Stop(turn):
                    self._stopped = turn
                    if turn == self._running:
                        self._stop_engine()
                case Close():
                    self._end(0)
                case DrawCurve():
                    self._draw_curve()
                case Count(number, text):
                    self._count(number, text)
                case _:
                    self._commands.put(command)

    def _count(self, number: int, text: str) -> None:
        if self._engine is not None:
            with suppress(EngineError):  # a model without a tokenizer counts nothing
                self._tell(0, Counted(number, len(self._engine.encode(text))))

    def _draw_curve(self) -> None:
        engine = self._engine
        if engine is None or (self._drawing is not None and self._drawing.is_alive()):
            return

        def draw() -> None:
            if sys.platform == "linux":
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _IDLE)
            self._tell(0, engine.memory_curve())

        self._drawing = threading.Thread(target=draw, name="curve", daemon=True)
        self._drawing.start()

    def _terminated(self, number: int, _frame: FrameType | None) -> None:
        self._end(128 + number)

    def _end(self, code: int) -> None:
        if self._engine is None:
            os._exit(code)
        self._ending, self._exit_code = True, code
        self._engine.stop()
        self._commands.put(None)

    def _stop_wanted(self) -> bool:
        return self._running != 0 and (self._ending or self._running == self._stopped)

    def _stop_engine(self) -> None:
        if self._engine is not None:
            self._engine.stop()

    def _tell(self, turn: int, event: Event | Failure) -> None:
        self._send(Tagged(turn, event))

    def _send(self, message: Opened | Tagged) -> None:
        with self._sending, suppress(OSError):  # the parent is gone: the listener hears of it too, and ends everything
            self._pipe.send(message)


def _prompt(engine: EngineLike, command: Chat | Complete) -> list[int]:
    if isinstance(command, Chat):
        return engine.render(command.messages, continue_final=command.continue_final)
    return engine.encode(command.prompt) if isinstance(command.prompt, str) else command.prompt


def _unbegun() -> Turn:
    none = Hits()
    return Turn(0, 0, 0.0, 0.0, 0.0, 0.0, none, none, 0, 0.0, "user")


def _die_first() -> None:
    """Offer this process to the kernel when memory runs out, before the terminal or anything else."""
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")


def _end_with_parent() -> None:
    """Ask Linux for SIGTERM when the parent dies, in case something else keeps the pipe open."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
