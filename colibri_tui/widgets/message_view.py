"""One finished message as one widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from textual.content import Content, Span
from textual.events import Click
from textual.message import Message
from textual.style import Style

from colibri_tui.render.blocks import Prose
from colibri_tui.render.clean import clean
from colibri_tui.render.inline import plain
from colibri_tui.render.markdown import markdown
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import Block, Parts, Row
from colibri_tui.widgets.reasoning import Reasoning, with_answer
from colibri_tui.widgets.row_view import RowView

Role = Literal["user", "assistant", "notice", "error"]
ReplyStatus = Literal["done", "cut", "stopped", "interrupted", "error"]
Severity = Literal["information", "warning", "error"]

_ACTION: Final = "transcript-action"
_GUTTERS: Final[dict[Role, Parts]] = {"user": (("❯ ", Mark.PROMPT),), "assistant": ()}
_NOTICE_GUTTERS: Final[dict[Severity, Parts]] = {
    "information": (("· ", Mark.INFORMATION),),
    "warning": (("! ", Mark.WARNING),),
    "error": (("✗ ", Mark.ERROR),),
}
_NOTICES: Final[dict[Severity, Mark]] = {
    "information": Mark.INFORMATION,
    "warning": Mark.WARNING,
    "error": Mark.ERROR,
}
_UNFINISHED: Final[dict[ReplyStatus, tuple[str, Mark]]] = {
    "cut": ("cut off at the length limit", Mark.NOTE),
    "stopped": ("stopped", Mark.NOTE),
    "interrupted": ("interrupted", Mark.WARNING),
    "error": ("failed", Mark.ERROR),
}


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message as it is kept: what was said, and how an answer ended.

    status and reasoning matter for answers only; a note is one line under the text. thought: what the line that stands
    for the reasoning says.
    """

    role: Role
    content: str
    status: ReplyStatus = "done"
    note: str = ""
    reasoning: str = ""
    thought: str = ""


class MessageView(RowView):
    """A question, an answer, a notice or an error."""

    class ActionPressed(Message):
        """One of a notice's actions was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class CodePressed(Message):
        """The head of a piece of code was clicked."""

        def __init__(self, code: str) -> None:
            super().__init__()
            self.code = code

    def __init__(
        self,
        message: TranscriptMessage,
        *,
        severity: Severity = "information",
        actions: Sequence[tuple[str, str]] = (),
        opened: bool = False,
    ) -> None:
        """opened: whether the reasoning is shown."""
        if message.role == "error":
            severity = "error"
        gutter = _GUTTERS.get(message.role)
        super().__init__(_NOTICE_GUTTERS[severity] if gutter is None else gutter)
        self.message = message
        self.reasoning = Reasoning(message.reasoning, message.thought, opened=opened) if message.reasoning else None
        self._answer = message_blocks(message, severity, actions)
        self.blocks = with_answer(self.reasoning, self._answer)

    def open_reasoning(self, opened: bool) -> None:
        """Show the reasoning, or one line for it."""
        if self.reasoning is not None:
            self.reasoning.fold(opened)
            self.show_blocks(with_answer(self.reasoning, self._answer))

    @property
    def source(self) -> str:
        """The text of the message as it was written."""
        return clean(self.message.content, tab_size=None)

    def on_click(self, event: Click) -> None:
        """Open or close the reasoning; pass on clicks on a notice's actions and on the heads of code."""
        key = event.style.meta.get(_ACTION)
        row = self.row_at(event.y)
        if isinstance(key, str):
            event.stop()
            self.post_message(self.ActionPressed(key))
        elif row is not None and self.reasoning is not None and self.lines[event.y].number == 0:
            event.stop()
            self.open_reasoning(not self.reasoning.opened)
        elif row is not None and row.code:
            event.stop()
            self.post_message(self.CodePressed(row.code))


def message_blocks(
    message: TranscriptMessage, severity: Severity = "information", actions: Sequence[tuple[str, str]] = ()
) -> list[Block]:
    """Return the blocks of a finished message.

    What a person typed is shown as it is; only answers are Markdown.
    """
    match message.role:
        case "assistant":
            return [*markdown(message.content), *note_blocks(message.status, message.note)]
        case "user":
            prose = Prose([line.stylize(Mark.USER) for line in plain(message.content)])
            return [prose, *note_blocks("done", message.note)]
        case _:
            lines = [line.stylize(_NOTICES[severity]) for line in plain(message.content)]
            return [Prose(lines), *([Actions(actions)] if actions else [])]


def note_blocks(status: ReplyStatus, note: str) -> list[Block]:
    """Return the line under an answer; there is none if it ended by itself and there is nothing to say."""
    text, mark = _UNFINISHED.get(status, ("", Mark.NOTE))
    text = clean(note).replace("\n", " ") or text
    return [Note(Content.styled(text, mark))] if text else []


@dataclass(frozen=True, slots=True)
class Note:
    """A line about a message, which is not part of it."""

    text: Content

    def rows(self, width: int) -> list[Row]:
        """Return one row."""
        return [Row(self.text, copied=False)]


@dataclass(frozen=True, slots=True)
class Actions:
    """What can be done about a notice: (key, label) pairs, drawn as buttons."""

    actions: Sequence[tuple[str, str]]

    def rows(self, width: int) -> list[Row]:
        """Return one row."""
        text = ""
        spans: list[Span] = []
        for key, label in self.actions:
            start = len(text)
            text += f"[ {clean(label)} ]"
            spans += [
                Span(start, len(text), Mark.ACTION),
                Span(start, len(text), Style.from_meta({_ACTION: key})),
            ]
            text += "  "
        return [Row(Content(text.rstrip(), spans), copied=False)]
