"""The engine's door in a process of its own: commands in, events out, the board in shared memory.

Why a process: compiling kernels holds the interpreter lock for seconds, a crash or an out-of-memory kill must
not take the terminal with it, and whoever draws the screen should not have to import the compiler.

Why a plain child and a socket rather than `multiprocessing.Process`: the child's output goes to a log from
its first instruction on (a traceback would land in the middle of a screen), the caller's main script is not
run a second time, and the child has a resource tracker of its own, which removes a board that a killed engine
left behind at once, and complains into the same log. Both get a session of their own: the terminal's Ctrl+C and
hang-up are the parent's to hear; the child learns from the end of the pipe.

The child is `engine.worker_host`; what a dead one died of is worked out by `engine.obituary`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final, Literal, Protocol

from . import obituary
from .board import Board
from .errors import EngineError, StateError, WorkerDiedError
from .events import Event, Loading, MemoryCurve, Notice, Ready, State, Turn
from .options import EngineOptions
from .wire import (
    Between,
    Chat,
    Close,
    Command,
    Complete,
    Count,
    DrawCurve,
    Failure,
    Open,
    Opened,
    SaveState,
    Stop,
    Tagged,
)

if TYPE_CHECKING:
    from .text.sampler import Sampling

ENGINE: Final = "engine.opening:open_engine"
"""The import string of the real engine's factory."""

_FLAGS = ("-P", "-W", "ignore:resource_tracker")  # the parent unlinks the board: nothing to mention
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from engine.worker_host import serve; serve(int(sys.argv[1]))"
_DEATH_WAIT_S = 3.0  # between the end of the pipe and the end of the process; then it is killed
_SAVE_WAIT_S = 60.0  # to write a state to a slow disk
_LOG_TAIL = 16_384  # bytes of the log that are read for its last words


class EngineLike(Protocol):
    """What a worker needs of an engine. One turn at a time; every method but `stop` belongs to one thread."""

    @property
    def info(self) -> Ready:
        """What was loaded."""

    @property
    def board(self) -> Board:
        """Live telemetry, [info.layers, info.experts]; in shared memory when that was asked for."""

    @property
    def defaults(self) -> Sampling:
        """How the model wants to be sampled."""

    def render(self, messages: list[dict[str, str]], *, continue_final: bool = False) -> list[int]:
        """Return the ids of a conversation in the model's chat template, ready for the assistant's words.

        `continue_final` leaves the last message open, so that the model goes on with it.
        """

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text, without a template. From any thread."""

    def generate(
        self,
        ids: list[int],
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        nucleus: float = 1.0,
        seed: int | None = None,
        repetition: float = 1.0,
        chat: bool = False,
    ) -> Iterator[Event]:
        """Yield Prefill..., Token..., Notice... and one Turn at the end. An earlier `stop` is forgotten.

        chat: the ids come from `render`; reasoning in the answer is told apart.

        Raises EngineError: before the first event, or after the Turn, whose stop is then "error".
        """

    def save_state(self, path: str, most: int | None = None) -> State:
        """Keep the conversation's memory in a file of at most so many bytes. Raises StateError; it then stays."""

    def load_state(self, path: str) -> State:
        """Take up the conversation kept in a file. Raises StateError."""

    def forget(self) -> None:
        """Hold no conversation."""

    def repin_for(self, history: str, learn: bool = True) -> list[str]:
        """Learn into another history, and pin what it ranks highest; returns notices. Raises EngineError."""

    def memory_curve(self) -> MemoryCurve:
        """What more or less memory would do, going by the last tokens. From any thread; takes seconds."""

    def stop(self) -> None:
        """End the running turn within one layer, from any thread; harmless when none runs."""

    def close(self) -> None:
        """Save what was learned and let go of files and memory."""


def state_event(done: Literal["saved", "loaded"], path: str, work: Callable[[], State]) -> State:
    """Save or load a state by `work`; the event says how that went."""
    try:
        return work()
    except StateError as error:
        return State(done, path, error=obituary.one_line(str(error)))


class Factory(Protocol):
    """Opens an engine; named by an import string `module:name`, so that the child can find it."""

    def __call__(
        self,
        path: str,
        options: EngineOptions,
        *,
        progress: Callable[[Loading | Notice], None],
        shared_board: bool,
    ) -> EngineLike:
        """Load the model at `path`; `progress` is called from this thread. Raises EngineError."""


def find_factory(name: str) -> Factory:
    """Return the factory that an import string `module:name` names, and load its module."""
    module, _, attribute = name.partition(":")
    factory: Factory = getattr(importlib.import_module(module), attribute)
    return factory


class Worker:
    """A running engine process. One thread may send commands while another one receives.

    Every command but `stop` and `close` raises WorkerDiedError when the process is gone.
    """

    def __init__(self, process: subprocess.Popen[bytes], pipe: Connection, log: int, ram: float | None) -> None:
        self._process, self._pipe, self._log, self._ram = process, pipe, log, ram
        self._oom_kills = obituary.oom_kills()
        self._turn = 0
        self._saving = 0  # states that are being saved
        self._closing = False
        self.info: Ready | None = None
        self.defaults: Sampling | None = None
        self.board: Board | None = None

    @classmethod
    def start(
        cls,
        path: str | os.PathLike[str],
        options: EngineOptions,
        factory: str = ENGINE,
        *,
        niceness: int = 10,
    ) -> Worker:
        """Start the process and let it load the model; returns at once, `receive` tells how it goes.

        On Linux the kernel ends the child with the *thread* that started it: call this from one that stays.
        Raises WorkerDiedError when no process can be started.
        """
        ours, theirs = Pipe()
        search = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109 - text, as in sys.path
        with theirs, tempfile.TemporaryFile() as log:
            try:
                process = subprocess.Popen(
                    [sys.executable, *_FLAGS, "-c", _BOOT, str(theirs.fileno()), *search],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise WorkerDiedError(f"the engine's process cannot be started: {error.strerror}") from error
            worker = cls(process, ours, os.dup(log.fileno()), options.ram)
        worker._send(Open(os.fspath(path), options, factory, niceness))
        return worker

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def busy(self) -> bool:
        """Whether a turn was begun whose end has not been received."""
        return self._turn != 0

    def chat(self, turn: int, messages: list[dict[str, str]], sampling: Sampling, continue_final: bool = False) -> None:
        """Begin turn number `turn` (> 0). Raises EngineError while another one runs."""
        self._begin(Chat(turn, messages, sampling, continue_final))

    def complete(self, turn: int, prompt: list[int] | str, sampling: Sampling) -> None:
        """Begin turn number `turn` (> 0) with ids, or with text without a template."""
        self._begin(Complete(turn, prompt, sampling))

    def between_turns(self, command: Between) -> None:
        """Have something done as soon as no turn runs."""
        self._saving += isinstance(command, SaveState)
        self._send(command)

    def draw_curve(self) -> None:
        """Ask what more or less memory would do; turns go on meanwhile, and asking again before the answer is lost."""
        self._send(DrawCurve())

    def count(self, number: int, text: str) -> None:
        """Ask how many tokens a text has; turns go on meanwhile."""
        self._send(Count(number, text))

    def stop(self, turn: int) -> None:
        """Ask for the end of a turn; its `Turn` event says `stop="user"`."""
        with contextlib.suppress(WorkerDiedError):  # `receive` reports a death, once and to its own thread
            self._send(Stop(turn))

    def receive(self, timeout: float | None = None) -> Tagged | None:
        """Return the next event, or None when `timeout` seconds bring none (None: wait).

        Raises WorkerDiedError, with the reason in one line, when the process is gone.
        """
        try:
            if not self._pipe.poll(timeout):
                return None
            message = self._pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if isinstance(message, Opened):
            self._attach(message)
            return Tagged(0, message.info)
        assert isinstance(message, Tagged)
        if isinstance(message.event, State) and message.event.done == "saved":
            self._saving -= 1
        if isinstance(message.event, Turn | Failure):
            self._turn = 0
        return message

    def close(self, timeout: float = 5.0) -> None:
        """End the process: politely, and after `timeout` seconds by force. Safe to call twice.

        While a state is being saved it is given a minute at least.
        """
        if self._saving:
            timeout = max(timeout, _SAVE_WAIT_S)
        self._closing = True
        with contextlib.suppress(WorkerDiedError):
            self._send(Close())
        self._reap(timeout)
        if self.board is not None:
            _let_go(self.board)
            self.board = None

    def last_words(self) -> str:
        """Return the tail of what the process printed, as it stands."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_TAIL, max(0, size - _LOG_TAIL)).decode(errors="replace")

    def __del__(self) -> None:
        os.close(self._log)

    def _begin(self, command: Chat | Complete) -> None:
        if self._turn:
            raise EngineError("the engine is answering already: stop that turn, or wait for its end")
        self._turn = command.turn
        self._send(command)

    def _send(self, command: Open | Command) -> None:
        try:
            self._pipe.send(command)
        except OSError:
            raise self._death() from None

    def _attach(self, opened: Opened) -> None:
        info = opened.info
        self.info, self.defaults = info, opened.defaults
        # Textual's stand-in for stderr has the descriptor -1, which the tracker would try to inherit.
        with contextlib.redirect_stderr(None):
            resource_tracker.ensure_running()
        with contextlib.suppress(FileNotFoundError):  # it died meanwhile: the next `receive` says so
            self.board = Board.attach(opened.board, info.layers, info.experts, info.top_k)

    def _reap(self, timeout: float) -> int:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _death(self) -> WorkerDiedError:
        code = self._reap(_DEATH_WAIT_S)
        if self._closing:
            return WorkerDiedError("the engine was closed")
        budget = self.info.plan.budget / 1e9 if self.info else self._ram
        killed = obituary.oom_kills() > self._oom_kills
        return WorkerDiedError(obituary.explain(code, self.last_words(), out_of_memory=killed, ram=budget))


def _let_go(board: Board) -> None:
    """Close a board; somebody may be drawing from it this very moment, which keeps it for that long."""
    for _ in range(50):
        with contextlib.suppress(BufferError):
            board.close()
            return
        time.sleep(0.02)
