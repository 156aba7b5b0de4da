"""One conversation with one model: what was said, what is being said, what waits to be said.

Knows no screen and no engine: the screen tells it what happened, and it answers what to show, send and store. Every
step is written to the journal as it is taken. A prompt that gets no answer, because it was stopped before the first
token, refused, or cut off by the end of the program, goes back to the person who wrote it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from colibri_tui.conversations import GROWING, INTERRUPTED, StoredMessage
from colibri_tui.journal import Journal, Row, known

Role = Literal["user", "assistant"]
DONE, CUT, STOPPED, ERROR = "done", "cut", "stopped", "error"
WITHDRAWN = "withdrawn"
"""A prompt that went back to the composer: kept for the prompt history, not part of the conversation."""
REPLACED = "replaced"
"""A reply that was regenerated: kept, not part of the conversation."""
CONTINUABLE = frozenset({CUT, STOPPED, INTERRUPTED, ERROR})
SAVE_SECONDS = 1.0
"""A growing reply is written down this often."""

EngineMessages = list[dict[str, str]]


@dataclass(slots=True)
class Said:
    """A message. status: one of the words above, `GROWING` or `INTERRUPTED`."""

    role: str
    content: str
    row: Row
    status: str = DONE
    note: str = ""
    stats: dict[str, Any] | None = None


@dataclass(slots=True)
class Running:
    """The turn under way. `reply` is None until its first token; `base` is what a continued reply had.

    replaces: the reply that this turn regenerates, put back if the turn ends without one.
    """

    reply: Said | None = None
    base: str = ""
    parts: list[str] = field(default_factory=list)
    saved_at: float = 0.0
    replaces: Said | None = None

    @property
    def content(self) -> str:
        """All of the reply so far."""
        return self.base + "".join(self.parts)


class Session:
    """Create one per conversation. `model` is the key under which the model's things are kept."""

    def __init__(self, journal: Journal, model: str, profile: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._now = clock
        self.model = model
        self.profile = profile
        self.conversation: Row | None = None
        self.messages: list[Said] = []
        self.queue: list[str] = []
        self.running: Running | None = None

    # Coming back to a conversation

    def load(self, conversation: int, stored: Sequence[StoredMessage]) -> str:
        """Take over a stored conversation; return a last prompt that never got an answer, '' if none.

        A reply that still grows belongs to another running copy of the program: it is shown as far as it got.
        """
        self.conversation = known(conversation)
        self.messages = [
            Said(m.role, m.content, known(m.id), m.status, m.note, m.stats)
            for m in stored
            if m.status not in (WITHDRAWN, REPLACED)
        ]
        if self.messages and self.messages[-1].role == "user":
            return self._withdraw_last()
        return ""

    # Prompts

    def prompt(self, text: str) -> EngineMessages:
        """Say something; return what the engine has to answer."""
        if self.conversation is None:
            self.conversation = self._journal.create(self.model, self.profile)
        row = self._journal.add(self.conversation, "user", text)
        self.messages.append(Said("user", text, row))
        self.running = Running()
        return self.engine_messages()

    @property
    def can_continue(self) -> bool:
        """Whether the last reply was cut and can be taken up again."""
        return (
            self.running is None
            and bool(self.messages)
            and self.messages[-1].role == "assistant"
            and self.messages[-1].status in CONTINUABLE
            and bool(self.messages[-1].content)
        )

    def continue_reply(self) -> EngineMessages:
        """Take the last reply up again; return messages whose last one the engine has to extend."""
        reply = self.messages[-1]
        self.running = Running(reply=reply, base=reply.content)
        return self.engine_messages()

    @property
    def can_regenerate(self) -> bool:
        """Whether there is a last reply to replace."""
        return self.running is None and len(self.messages) > 1 and self.messages[-1].role == "assistant"

    def regenerate(self) -> EngineMessages:
        """Put the last reply aside; return what the engine has to answer anew."""
        reply = self.messages.pop()
        self._journal.update(reply.row, status=REPLACED)
        self.running = Running(replaces=reply)
        return self.engine_messages()

    def engine_messages(self) -> EngineMessages:
        """Return the conversation as roles in turn: what one side said in a row is joined."""
        joined: EngineMessages = []
        for said in self.messages:
            if joined and joined[-1]["role"] == said.role:
                joined[-1]["content"] += "\n\n" + said.content
            else:
                joined.append({"role": said.role, "content": said.content})
        return joined

    # The reply

    def feed(self, text: str) -> None:
        """Add to the reply; the first call begins it. Written down about once a second."""
        running = self._turn()
        running.parts.append(text)
        if running.reply is None:
            assert self.conversation is not None
            row = self._journal.add(self.conversation, "assistant", text, GROWING)
            running.reply = Said("assistant", text, row, GROWING)
            self.messages.append(running.reply)
            running.saved_at = self._now()
        elif self._now() - running.saved_at >= SAVE_SECONDS:
            running.saved_at = self._now()
            self._journal.update(running.reply.row, content=running.content, status=GROWING)

    @property
    def has_reply(self) -> bool:
        """Whether the turn under way has text, or continues one that has."""
        return self.running is not None and self.running.reply is not None

    def finish(self, status: str, note: str = "", stats: dict[str, Any] | None = None) -> Said:
        """End a turn that has a reply, and write it down for good."""
        running, self.running = self._turn(), None
        reply = running.reply
        if reply is None:
            raise ValueError("a turn without a reply is withdrawn, not finished")
        reply.content, reply.status, reply.note, reply.stats = running.content, status, note, stats
        self._journal.update(reply.row, content=reply.content, status=status, note=note, stats=stats)
        return reply

    def withdraw(self) -> str:
        """End a turn that has no reply; return its prompt, which is no longer part of the conversation.

        If a reply was being regenerated, that one stands again, and '' is returned.
        """
        running, self.running = self._turn(), None
        if running.replaces is None:
            return self._withdraw_last()
        self.messages.append(running.replaces)
        self._journal.update(running.replaces.row, status=running.replaces.status)
        return ""

    def _withdraw_last(self) -> str:
        said = self.messages.pop()
        self._journal.update(said.row, status=WITHDRAWN)
        return said.content

    def _turn(self) -> Running:
        if self.running is None:
            raise ValueError("no turn is under way")
        return self.running
