"""Between the engine's process and Textual: commands go out, events come back as messages.

Nothing here waits in the caller's thread. Each engine process is a `_Session` with two threads: one starts
the process and reads its events to the end, one sends commands, which may block when the process works hard.

Messages are posted under the lock that `chat` and `start` take: in the target's queue every message of a turn
comes before every message of the next, and nothing comes from an engine that was replaced.

The board is closed in the thread that calls `start`, `restart` or `close`, which is the one that draws from
it; until then a dead engine's board shows its last state.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from colibri_tui.engine_messages import (
    INTERVAL_S,
    EngineCounted,
    EngineCurve,
    EngineDied,
    EngineError,
    EngineHistory,
    EngineLoading,
    EngineMessage,
    EngineNotice,
    EnginePrefill,
    EngineReady,
    EngineRepin,
    EngineState,
    EngineText,
    EngineTurn,
    Pace,
)
from engine.board import Board
from engine.errors import EngineError as EngineFailure
from engine.errors import WorkerDiedError
from engine.events import Counted, HistoryUsed, Loading, MemoryCurve, Notice, Prefill, Ready, Repin, State, Token, Turn
from engine.options import EngineOptions
from engine.wire import Between, Failure, Tagged
from engine.worker import ENGINE, Worker

if TYPE_CHECKING:
    from engine.text.sampler import Sampling

__all__ = [
    "INTERVAL_S",
    "EngineCounted",
    "EngineCurve",
    "EngineDied",
    "EngineError",
    "EngineHistory",
    "EngineLink",
    "EngineLoading",
    "EngineMessage",
    "EngineNotice",
    "EnginePrefill",
    "EngineReady",
    "EngineRepin",
    "EngineState",
    "EngineText",
    "EngineTurn",
    "LinkState",
]


class LinkState(Enum):
    """What the engine is doing, as far as the screen is concerned."""

    STOPPED = "stopped"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    DEAD = "dead"


class Target(Protocol):
    """Where messages go: a Textual app, screen or widget."""

    def post_message(self, message: Message, /) -> bool:
        """Take a message, from any thread."""


class EngineLink:
    """The engine as the screen sees it. All methods belong to the screen's thread and return at once."""

    def __init__(self, target: Target, factory: str = ENGINE) -> None:
        self._target, self._factory = target, factory
        self._lock = threading.Lock()
        self._session: _Session | None = None
        self._last: _Session | None = None
        self._path = Path()
        self._options = EngineOptions()
        self._boards: list[Board] = []
        self.state = LinkState.STOPPED
        self.turn = 0
        self.info: Ready | None = None
        self.defaults: Sampling | None = None
        self.board: Board | None = None
        self.error = ""

    @property
    def model_path(self) -> Path:
        """The folder of the model that was started last."""
        return self._path

    @property
    def options(self) -> EngineOptions:
        """The options it was started with."""
        return self._options

    def start(self, model_path: Path, options: EngineOptions) -> None:
        """Load a model; whatever ran before is closed first."""
        self._drop(LinkState.LOADING)
        self._path, self._options = model_path, options
        session = _Session(self._handle, model_path, options, self._factory, after=self._last)
        with self._lock:
            self._session = self._last = session
        session.begin()

    def restart(self, options: EngineOptions | None = None) -> None:
        """Load the same model again, perhaps with other options."""
        self.start(self._path, options or self._options)

    def chat(self, messages: list[dict[str, str]], sampling: Sampling, *, continue_final: bool = False) -> int:
        """Begin a turn and return its number. Raises engine.EngineError unless the state is READY."""
        with self._lock:
            if self.state is not LinkState.READY or self._session is None:
                raise EngineFailure(f"the engine cannot answer now: it is {self.state.value}")
            self.state = LinkState.BUSY
            self.turn = turn = self.turn + 1
            self._session.send(lambda worker: worker.chat(turn, messages, sampling, continue_final))
        return turn

    def between_turns(self, command: Between) -> bool:
        """Have something done as soon as no turn runs; say whether there is an engine for it."""
        with self._lock:
            if self._session is None or self.state not in (LinkState.READY, LinkState.BUSY):
                return False
            self._session.send(lambda worker: worker.between_turns(command))
            return True

    def draw_curve(self) -> bool:
        """Ask for an `EngineCurve`, which takes seconds; say whether there is an engine to ask. Turns go on."""
        with self._lock:
            if self._session is None or self.state not in (LinkState.READY, LinkState.BUSY):
                return False
            self._session.send(lambda worker: worker.draw_curve())
            return True

    def count(self, number: int, text: str) -> None:
        """Ask for an `EngineCounted` about a text; turns go on. Without an engine nobody answers."""
        with self._lock:
            if self._session is not None and self.state in (LinkState.READY, LinkState.BUSY):
                self._session.send(lambda worker: worker.count(number, text))

    def stop(self) -> None:
        """End the running turn, also before its first token, or give up loading. Else nothing happens."""
        with self._lock:
            turn = self.turn
            if self.state is LinkState.BUSY and self._session is not None:
                self._session.send(lambda worker: worker.stop(turn))
                return
            loading = self.state is LinkState.LOADING
        if loading:
            self._drop(LinkState.STOPPED)

    def close(self) -> None:
        """Let the engine save and end. `join` waits for that; nobody has to."""
        self._drop(LinkState.STOPPED)

    def join(self, timeout: float = 5.0) -> bool:
        """Wait until the closed engine has ended; say whether it has."""
        return self._last is None or self._last.join(timeout)

    def _drop(self, state: LinkState) -> None:
        """Let go of the session and of everything that belongs to it."""
        with self._lock:
            session, self._session = self._session, None
            if self.board is not None:
                self._boards.append(self.board)
            self.state, self.error = state, ""
            self.info = self.defaults = self.board = None
        if session is not None:
            session.close()
        for board in list(self._boards):
            with suppress(BufferError):  # a view of it is still about: next time
                board.close()
                self._boards.remove(board)

    def _handle(self, session: _Session, message: EngineMessage) -> bool:
        """Take a session's message: change the state and pass it on, unless the session was replaced."""
        with self._lock:
            if session is not self._session:
                return False
            match message:
                case EngineReady():
                    self.state = LinkState.READY
                    self.info, self.defaults, self.board = message.info, session.defaults, session.board
                case EngineTurn() | EngineError(fatal=False):
                    self.state = LinkState.READY
                case EngineError(text=text) | EngineDied(text=text):
                    self.state, self.error = LinkState.DEAD, text
            self._target.post_message(message)
        return True


class _Session:
    """One engine process, from its start to its end."""

    def __init__(
        self,
        handle: Callable[[_Session, EngineMessage], bool],
        path: Path,
        options: EngineOptions,
        factory: str,
        after: _Session | None,
    ) -> None:
        self._handle, self._path, self._options, self._factory = handle, path, options, factory
        self._after = after
        self._commands: queue.SimpleQueue[Callable[[Worker], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine reader", daemon=True)
        self._pace = Pace(self._post)
        self._turn = 0
        self._text: list[str] = []
        self.defaults: Sampling | None = None
        self.board: Board | None = None

    def begin(self) -> None:
        """Start the process, once the one before it has gone and given back its memory."""
        self._thread.start()

    def send(self, command: Callable[[Worker], None]) -> None:
        """Queue a command."""
        self._commands.put(command)

    def close(self) -> None:
        """Let the process end after the commands that are queued."""
        self._commands.put(None)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the process's end; say whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        if self._after is not None:
            self._after.join()
            self._after = None
        try:
            worker = Worker.start(self._path, self._options, self._factory)
        except WorkerDiedError as error:
            self._post(EngineDied(0, str(error)))
            return
        sender = threading.Thread(target=self._send_all, args=(worker,), name="engine sender", daemon=True)
        sender.start()
        try:
            self._read(worker)
        except WorkerDiedError as error:
            self._pace.flush()
            self._post(EngineDied(self._turn, str(error)))
        self.close()
        sender.join()

    def _send_all(self, worker: Worker) -> None:
        while (command := self._commands.get()) is not None:
            with suppress(WorkerDiedError):  # the reader reports it
                command(worker)
        worker.close()

    def _read(self, worker: Worker) -> None:
        """Turn events into messages until the process dies, or refuses its model.

        Between two messages of a kind this sleeps, and then takes all that came: a thread that woke up for every token
        would take the interpreter away from the one that draws just as often.
        """
        while True:
            wait = self._pace.due_in()
            if wait:
                time.sleep(wait)
            tagged = worker.receive(None if wait is None else 0)
            if tagged is None:
                self._pace.flush()
                continue
            if isinstance(tagged.event, Ready):
                # The board goes to the link, which closes it in the thread that draws from it.
                self.defaults, self.board, worker.board = worker.defaults, worker.board, None
            message = self._message(tagged)
            self._pace.add(message)
            if isinstance(message, EngineError) and message.fatal:
                return

    def _message(self, tagged: Tagged) -> EngineMessage:
        turn, event = tagged.turn, tagged.event
        if isinstance(event, MemoryCurve):  # comes whenever it is ready
            return EngineCurve(self._turn, event)
        if isinstance(event, Counted):
            return EngineCounted(self._turn, event.number, event.tokens)
        if turn != self._turn:
            self._turn, self._text = turn, []
        match event:
            case Loading(stage, done, total):
                return EngineLoading(turn, stage, done, total)
            case Ready():
                return EngineReady(turn, event)
            case Prefill(done, total):
                return EnginePrefill(turn, done, total)
            case Token(_, text, reasoning):
                if text:
                    self._text.append(text)
                return EngineText(turn, text, 1, reasoning, 0 if self._text else 1, (reasoning + text,))
            case Turn():
                return EngineTurn(turn, event, "".join(self._text))
            case Repin():
                return EngineRepin(turn, event)
            case Notice(text):
                return EngineNotice(turn, text)
            case State():
                return EngineState(turn, event)
            case HistoryUsed(selections):
                return EngineHistory(turn, selections)
            case Failure(_, text):
                return EngineError(turn, text, fatal=turn == 0)

    def _post(self, message: EngineMessage) -> None:
        if not self._handle(self, message) and self.board is not None and isinstance(message, EngineReady):
            self.board.close()  # loaded and given up at the same moment: nobody has seen it
