"""What travels through the pipe between the engine's process and the one that started it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import errors
from .errors import EngineError
from .events import Event, Ready
from .options import EngineOptions

if TYPE_CHECKING:
    from .text.sampler import Sampling


@dataclass(frozen=True, slots=True)
class Open:
    """The first command: what to load, with which factory, and how nice the process should be."""

    path: str
    options: EngineOptions
    factory: str
    niceness: int


@dataclass(frozen=True, slots=True)
class Chat:
    """Answer a conversation."""

    turn: int
    messages: list[dict[str, str]]
    sampling: Sampling
    continue_final: bool


@dataclass(frozen=True, slots=True)
class Complete:
    """Go on with a prompt: ids, or text without a template."""

    turn: int
    prompt: list[int] | str
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class SaveState:
    """Keep the conversation's memory in a file of at most so many bytes; a `State` event tells how it went."""

    path: str
    most: int | None = None


@dataclass(frozen=True, slots=True)
class LoadState:
    """Take up the conversation kept in a file; a `State` event tells how it went."""

    path: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Hold no conversation."""


@dataclass(frozen=True, slots=True)
class UseHistory:
    """Learn into another history from now on, and pin what it ranks highest; a `HistoryUsed` event tells when."""

    path: str
    learn: bool


@dataclass(frozen=True, slots=True)
class DrawCurve:
    """Work out what more or less memory would do, beside whatever runs; a `MemoryCurve` event tells."""


@dataclass(frozen=True, slots=True)
class Count:
    """Tell how many tokens a text has, beside whatever runs; a `Counted` event with the same number does."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End that turn, whether it runs or has not begun; one that is over is left alone."""

    turn: int


@dataclass(frozen=True, slots=True)
class Close:
    """End the running turn, save, exit. While loading: exit at once."""


Between = SaveState | LoadState | Forget | UseHistory
"""What is done between turns: after the one that runs."""

Command = Chat | Complete | Between | DrawCurve | Count | Stop | Close


@dataclass(frozen=True, slots=True)
class Opened:
    """The child's word that the model is loaded; the client makes a `Ready` event of it."""

    info: Ready
    defaults: Sampling
    board: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An EngineError from the other process: the load was refused (turn 0), or a turn ended with it."""

    kind: str
    text: str

    def error(self) -> EngineError:
        """Return it as the exception it was."""
        kind = getattr(errors, self.kind, EngineError)
        error: EngineError = kind(self.text)
        return error


@dataclass(frozen=True, slots=True)
class Tagged:
    """An event with the number of the turn it belongs to; 0 before the first turn."""

    turn: int
    event: Event | Failure
