"""One conversation with one model: what was said, what is being said, what waits to be said.

Knows no screen and no engine: the screen tells it what happened, and it answers what to show, send and store. Every
step is written to the journal as it is taken. A prompt that gets no answer, because it was stopped before the first
token, refused, or cut off by the end of the program, goes back to the person who wrote it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Literal

from colibri_tui import attachments, chat_settings
from colibri_tui.attachments import Attachment, with_files
from colibri_tui.chat_settings import ChatSettings
from colibri_tui.conversations import GROWING, INTERRUPTED, StoredMessage
from colibri_tui.journal import Journal, Row, known
from colibri_tui.thought import NO_THOUGHT, Thought

Role = Literal["user", "assistant"]
DONE, CUT, STOPPED, ERROR = "done", "cut", "stopped", "error"
WITHDRAWN = "withdrawn"
"""A prompt that went back to the composer: kept for the prompt history, not part of the conversation."""
REPLACED = "replaced"
"""A reply that was regenerated, or what came after a prompt that was edited: kept, not part of the conversation."""
CONTINUABLE = frozenset({CUT, STOPPED, INTERRUPTED, ERROR})
SAVE_SECONDS = 1.0
"""A growing reply is written down this often."""

EngineMessages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be said. replaces: the number of the message from which on it takes the place of what was said."""

    text: str
    files: tuple[Attachment, ...] = ()
    replaces: int | None = None


@dataclass(slots=True)
class Said:
    """A message. status: one of the words above, `GROWING` or `INTERRUPTED`. files: what goes along with a prompt.

    tokens: how many the conversation had after this answer; None if that was not measured.
    """

    role: str
    content: str
    row: Row
    status: str = DONE
    note: str = ""
    files: tuple[Attachment, ...] = ()
    thought: Thought = NO_THOUGHT
    tokens: int | None = None


@dataclass(slots=True)
class Running:
    """The turn under way. `reply` is None until its first token; `base` is what a continued reply had.

    thinking: when the reasoning that goes on now began, by the session's clock; None while there is none.
    replaces: what this turn takes the place of, put back if the turn ends without a reply. prompted: whether it began
    with a prompt of its own.
    """

    reply: Said | None = None
    base: str = ""
    parts: list[str] = field(default_factory=list)
    saved_at: float = 0.0
    thinking: float | None = None
    replaces: tuple[Said, ...] = ()
    prompted: bool = False

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
        self.queue: list[Prompt] = []
        self.settings = ChatSettings()
        self.running: Running | None = None

    # Coming back to a conversation

    def load(self, conversation: int, stored: Sequence[StoredMessage], settings: str = "") -> str:
        """Take over a stored conversation; return a last prompt that never got an answer, '' if none.

        A reply that still grows belongs to another running copy of the program: it is shown as far as it got.
        """
        self.conversation = known(conversation)
        self.settings = chat_settings.load(settings)
        self.messages = [
            Said(
                m.role,
                m.content,
                known(m.id),
                m.status,
                m.note,
                attachments.load(m.attachments),
                m.thought,
                _tokens(m.stats),
            )
            for m in stored
            if m.status not in (WITHDRAWN, REPLACED)
        ]
        if self.messages and self.messages[-1].role == "user":
            return self._withdraw_last()
        return ""

    @property
    def tokens(self) -> int | None:
        """How many tokens the conversation had after its last answer; None if that was not measured."""
        if not self.messages:
            return 0
        return next((said.tokens for said in reversed(self.messages) if said.role == "assistant"), None)

    # Prompts

    def configure(self, settings: ChatSettings) -> None:
        """Let these settings hold from the next answer on."""
        self.settings = settings
        if self.conversation is not None:
            self._journal.configure(self.conversation, chat_settings.dump(settings))

    def prompt(self, prompt: Prompt) -> EngineMessages:
        """Say something; return what the engine has to answer."""
        if self.conversation is None:
            self.conversation = self._journal.create(self.model, self.profile, chat_settings.dump(self.settings))
        replaced = () if prompt.replaces is None else tuple(self.messages[prompt.replaces :])
        if replaced:
            del self.messages[prompt.replaces :]
            for said in replaced:
                self._journal.update(said.row, status=REPLACED)
        stored = attachments.dump(prompt.files)
        row = self._journal.add(self.conversation, "user", prompt.text, attachments=stored)
        self.messages.append(Said("user", prompt.text, row, files=prompt.files))
        self.running = Running(replaces=replaced, prompted=True)
        return self.engine_messages()

    @property
    def can_continue(self) -> bool:
        """Whether the last reply was cut and can be taken up again."""
        return (
            self.running is None
            and bool(self.messages)
            and self.messages[-1].role == "assistant"
            and self.messages[-1].status in CONTINUABLE
            and bool(self.messages[-1].content or self.messages[-1].thought.text)
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
        self.running = Running(replaces=(reply,))
        return self.engine_messages()

    def engine_messages(self) -> EngineMessages:
        """Return the system prompt and the conversation as roles in turn: what one side said in a row is joined.

        Reasoning goes along apart, for templates that want it.
        """
        joined: EngineMessages = []
        if self.settings.system:
            joined.append({"role": "system", "content": self.settings.system})
        for said in self.messages:
            content = with_files(said.content, said.files)
            if joined and joined[-1]["role"] == said.role:
                joined[-1]["content"] += "\n\n" + content
            else:
                joined.append({"role": said.role, "content": content})
                if said.thought.text.strip():
                    joined[-1]["reasoning_content"] = said.thought.text
        return joined

    def text_with(self, prompt: Prompt) -> str:
        """Return all words that the engine would be given with one more prompt, for those who count them."""
        said = self.messages if prompt.replaces is None else self.messages[: prompt.replaces]
        words = [with_files(one.content, one.files) for one in said]
        return "\n".join([self.settings.system, *words, with_files(prompt.text, prompt.files)])

    # The reply

    def feed(self, text: str, reasoning: str = "", before: int = 0) -> None:
        """Add to the reply; the first call begins it. Written down about once a second.

        reasoning: more of what comes before the answer. before: tokens that came before the answer's first word.
        """
        running, now = self._turn(), self._now()
        running.parts.append(text)
        reply = running.reply
        if reply is None:
            assert self.conversation is not None
            row = self._journal.add(self.conversation, "assistant", text, GROWING)
            reply = running.reply = Said("assistant", text, row, GROWING)
            self.messages.append(reply)
            running.saved_at = now
        if reasoning or running.thinking is not None:
            spent = now - running.thinking if running.thinking is not None else 0.0
            reply.thought = reply.thought.grown(reasoning, spent, before)
            running.thinking = None if text else now
        if now - running.saved_at >= SAVE_SECONDS:
            running.saved_at = now
            self._journal.update(reply.row, content=running.content, status=GROWING, thought=reply.thought)

    @property
    def thought(self) -> Thought:
        """What was thought before the reply under way."""
        return self.running.reply.thought if self.running is not None and self.running.reply is not None else NO_THOUGHT

    @property
    def thinking(self) -> bool:
        """Whether the reply under way is still reasoning."""
        return self.running is not None and self.running.thinking is not None

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
        if running.thinking is not None:
            reply.thought = reply.thought.grown("", self._now() - running.thinking, 0)
        reply.content = intern(running.content)  # the screen keeps the same text: one copy is enough
        reply.status, reply.note, reply.tokens = status, note, _tokens(stats)
        self._journal.update(
            reply.row, content=reply.content, status=status, note=note, stats=stats, thought=reply.thought
        )
        return reply

    def withdraw(self) -> str:
        """End a turn that has no reply; return its prompt, which is no longer part of the conversation.

        What it was to replace stands again. '' if it had no prompt of its own: an answer was regenerated.
        """
        running, self.running = self._turn(), None
        text = self._withdraw_last() if running.prompted else ""
        for said in running.replaces:
            self.messages.append(said)
            self._journal.update(said.row, status=said.status)
        return text

    def _withdraw_last(self) -> str:
        said = self.messages.pop()
        self._journal.update(said.row, status=WITHDRAWN)
        return said.content

    def _turn(self) -> Running:
        if self.running is None:
            raise ValueError("no turn is under way")
        return self.running


def _tokens(stats: dict[str, Any] | None) -> int | None:
    """Return how many tokens a conversation had after an answer with these figures."""
    read, written = (stats or {}).get("prompt_tokens"), (stats or {}).get("tokens")
    return read + written if isinstance(read, int) and isinstance(written, int) else None
