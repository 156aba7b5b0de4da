"""What the engine's process says, as Textual messages, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from textual.message import Message

from engine.events import MemoryCurve, Ready, Repin, State, Turn

INTERVAL_S: Final = 0.05
"""Texts and progress of one kind are posted at most this often; what comes between is merged."""


@dataclass
class EngineMessage(Message):
    """A message of the engine. `turn` is the turn it belongs to; before the first one, 0."""

    turn: int


@dataclass
class EngineLoading(EngineMessage):
    """The model loads: `done` of `total` of a stage such as 'compiling kernels'."""

    stage: str
    done: int
    total: int


@dataclass
class EngineReady(EngineMessage):
    """The model is loaded; the link has its `info`, `defaults` and `board`."""

    info: Ready


@dataclass
class EnginePrefill(EngineMessage):
    """`done` of `total` prompt tokens have been read."""

    done: int
    total: int


@dataclass
class EngineText(EngineMessage):
    """More of the reply: `text` of `tokens` new tokens. The text may be empty.

    reasoning: what the model thinks before its answer. before: tokens that came before the answer's first word.
    pieces: what each of the tokens said.
    """

    text: str
    tokens: int
    reasoning: str = ""
    before: int = 0
    pieces: tuple[str, ...] = ()


@dataclass
class EngineTurn(EngineMessage):
    """The turn is over: its figures, and all of its text."""

    summary: Turn
    text: str


@dataclass
class EngineRepin(EngineMessage):
    """A pinned expert made room for a hotter one."""

    swap: Repin


@dataclass
class EngineNotice(EngineMessage):
    """Something the person should know."""

    text: str


@dataclass
class EngineError(EngineMessage):
    """The engine refused: a turn (the engine stays ready) or, `fatal`, the model."""

    text: str
    fatal: bool


@dataclass
class EngineDied(EngineMessage):
    """The engine's process is gone, and why. `EngineLink.restart` starts another one."""

    text: str


@dataclass
class EngineHistory(EngineMessage):
    """The engine learns into another history, where so many choices of experts were learned before."""

    selections: int


@dataclass
class EngineState(EngineMessage):
    """The state of a conversation was kept or taken up, or could not be."""

    state: State


@dataclass
class EngineCurve(EngineMessage):
    """What more or less memory would do; see `EngineLink.draw_curve`."""

    curve: MemoryCurve


@dataclass
class EngineCounted(EngineMessage):
    """How many tokens the text has that was asked about under this number; see `EngineLink.count`."""

    number: int
    tokens: int


class Pace:
    """Posts the first message of a kind at once and merges what follows within the interval, in order.

    What is held back goes out when `due_in` says so and no more is there; at the latest an interval after that.
    """

    def __init__(self, post: Callable[[EngineMessage], None]) -> None:
        self._send = post
        self._held: list[EngineMessage] = []
        self._kind: object = None
        self._due = 0.0

    def add(self, message: EngineMessage) -> None:
        """Post the message now or later."""
        kind = _kind(message)
        if kind is None or kind != self._kind:
            self.flush()
            self._kind = kind
            self._post(message)
            return
        self._held.append(message)
        if time.monotonic() >= self._due + INTERVAL_S:
            self.flush()

    def due_in(self) -> float | None:
        """Return the seconds until `flush` is due; None while nothing is held back."""
        return None if not self._held else max(0.0, self._due - time.monotonic())

    def flush(self) -> None:
        """Post what is held back."""
        if self._held:
            held, self._held = self._held, []
            self._post(_merged(held))

    def _post(self, message: EngineMessage) -> None:
        self._send(message)
        self._due = time.monotonic() + INTERVAL_S


def _kind(message: EngineMessage) -> object:
    """Messages of one kind are merged when they follow each other quickly; those of kind None never are."""
    match message:
        case EngineLoading(stage=stage):
            return EngineLoading, stage
        case EnginePrefill(turn=turn) | EngineText(turn=turn):
            return type(message), turn
    return None


def _merged(messages: Sequence[EngineMessage]) -> EngineMessage:
    """Return one message that says what some of a kind say."""
    texts = [message for message in messages if isinstance(message, EngineText)]
    if not texts:
        return messages[-1]
    return EngineText(
        texts[-1].turn,
        "".join(text.text for text in texts),
        sum(text.tokens for text in texts),
        "".join(text.reasoning for text in texts),
        sum(text.before for text in texts),
        tuple(piece for text in texts for piece in text.pieces),
    )
