"""The conversation on screen: finished messages, the running answer, and the way through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final, Literal

from textual import on
from textual.app import ComposeResult
from textual.events import Click, MouseScrollUp
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from colibri_tui.render.clean import clean
from colibri_tui.render.highlight import prepare
from colibri_tui.render.markdown import code_blocks
from colibri_tui.widgets.finder import Finder, Found
from colibri_tui.widgets.message_log import MessageLog
from colibri_tui.widgets.message_view import MessageView, ReplyStatus, Severity, TranscriptMessage
from colibri_tui.widgets.tail_view import TailView
from colibri_tui.widgets.welcome import Welcome

MOUNTED: Final = 60
"""Messages that are widgets; earlier ones are loaded on demand, as many at a time."""
_SLACK: Final = 20
"""Messages beyond that which a conversation may grow by before the oldest are put away again."""

Scroll = Literal["row_up", "row_down", "page_up", "page_down", "first", "end"]


class Transcript(Widget):
    """Shows a conversation. It owns what is on screen, not what is kept: the application stores messages.

    Everything is called from the application's own loop; text that arrives when no reply runs is dropped.
    """

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")
    BLANK = True
    BINDING_GROUP_TITLE = "Transcript"
    HELP = """
    The conversation. It follows the answer until you scroll up, and again after **End**.

    - **PgUp**, **PgDn**, **Shift+Up**, **Shift+Down** and the wheel scroll without leaving the prompt
    - at the top, scrolling further up loads earlier messages
    - what a model thought before its answer is one line; a click on it shows all, **Alt+T** all of all answers
    - drag to select; **copy** above a piece of code copies it as it was written
    """

    class Action(Message):
        """An action of a notice was chosen; `key` is the one given to `notice`."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class CopyRequested(Message):
        """A piece of code should go to the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._log = MessageLog()
        self._welcome = Welcome()
        self._earlier = Static(id="earlier")
        self._badge = Static(id="unseen")
        self._messages: list[TranscriptMessage] = []
        self._first = 0  # number of the first message that is a widget
        self._tail: TailView | None = None
        self._prepared = False
        self._finder = Finder(self._log)
        self._chosen: MessageView | None = None
        self._opened = False  # whether reasoning is shown

    def compose(self) -> ComposeResult:
        """The column of messages, and a badge over its corner."""
        self._earlier.display = False
        with self._log:
            yield self._welcome
            yield self._earlier
        yield self._badge

    def on_mount(self) -> None:
        """Keep the badge up to date."""
        self.watch(self._log, "unseen", self._show_unseen, init=False)

    # The conversation

    def load(self, messages: Sequence[TranscriptMessage]) -> None:
        """Show another conversation, its end first; only the newest messages become widgets."""
        self.clear()
        self._messages = list(messages)
        self._first = max(len(self._messages) - MOUNTED, 0)
        self._log.mount_all(map(self._view_of, self._messages[self._first :]))
        self._show_earlier()
        self._show_welcome()

    def clear(self) -> None:
        """Show nothing; a running reply is forgotten."""
        self._messages = []
        self._first = 0
        self._tail = self._chosen = None
        self._log.remove_children(MessageView)
        self._show_earlier()
        self._show_welcome()
        self._log.action_follow()

    def add_user(self, text: str, note: str = "") -> None:
        """Add a question, and go to the end: who asks wants to see the answer."""
        self._add(TranscriptMessage("user", text, note=note))
        self._put_away()
        self._log.action_follow()

    def notice(self, text: str, severity: Severity = "information", actions: Sequence[tuple[str, str]] = ()) -> None:
        """Add a notice; a click on one of its (key, label) actions posts `Action(key)`.

        It stands above a running reply.
        """
        self._add(TranscriptMessage("notice", text), severity, actions)

    def load_earlier(self) -> bool:
        """Turn older messages into widgets; return whether there were any.

        What the reader sees stays where it is.
        """
        if not self._first:
            return False
        stop, self._first = self._first, max(self._first - MOUNTED, 0)
        views = [*map(self._view_of, self._messages[self._first : stop])]
        self._log.mount_all(views, after=self._earlier)
        self._finder.mark(views)
        self._show_earlier()
        return True

    def last_answer(self) -> str:
        """Return the source of the newest answer, of the running one if it has text; "" if there is none."""
        return next((text for text in self._answers() if text), "")

    def last_reasoning(self) -> str:
        """Return what was thought before the newest answer that has any; "" if there is none."""
        found = [self._tail.message] if self._tail is not None else []
        return next((said.reasoning.strip() for said in (*found, *reversed(self._messages)) if said.reasoning), "")

    def toggle_reasoning(self) -> bool:
        """Show the reasoning of all answers, or a line for each; return whether it is shown now."""
        self._opened = not self._opened
        for view in self._log.query_children(MessageView):
            view.open_reasoning(self._opened)
        return self._opened

    def code_blocks(self) -> list[str]:
        """Return the pieces of code in all answers as they were written, the newest last."""
        found: list[str] = []
        for text in self._answers():
            found[:0] = _code_of(text)
        return found

    # Finding and choosing

    def find(self, text: str) -> Found:
        """Mark some words wherever they stand, and go to the last place; '' ends that.

        Earlier messages that are no widgets yet become some as far back as the words stand in them.
        """
        if text.strip():
            first = next((n for n, m in enumerate(self._messages) if text.casefold() in m.content.casefold()), None)
            while first is not None and first < self._first:
                self.load_earlier()
        return self._finder.look_for(text)

    def find_next(self, step: int) -> Found:
        """Go to the next place with the words (1), or the one before (-1)."""
        return self._finder.go(step)

    @property
    def chosen(self) -> TranscriptMessage | None:
        """The message that is marked, to be copied or edited."""
        return self._chosen.message if self._chosen is not None and self._chosen.is_mounted else None

    @property
    def chosen_number(self) -> int | None:
        """How many questions and answers stand before the marked one; None if there is none."""
        chosen = self.chosen
        said = [message for message in self._messages if message.role in ("user", "assistant")]
        return next((n for n, message in enumerate(said) if message is chosen), None)

    def choose(self, step: int) -> None:
        """Mark the question or answer before (-1) the marked one, or after it (1); beyond the last one, none."""
        views = [v for v in self._log.query_children(MessageView) if v.message.role in ("user", "assistant")]
        at = views.index(self._chosen) if self._chosen in views else len(views)
        if step < 0 and at == 0 and self.load_earlier():
            self.call_after_refresh(self.choose, step)
            return
        at = max(at + step, 0)
        self.unchoose()
        if at < len(views):
            self._chosen = views[at]
            self._chosen.chosen = True
            self._log.scroll_to_widget(self._chosen, animate=False, immediate=True, top=True)
        else:
            self._log.action_follow()

    def unchoose(self) -> bool:
        """Mark no message; say whether one was."""
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            chosen.chosen = False
        return chosen is not None

    # The running reply

    def start_reply(self) -> None:
        """Begin an answer."""
        if not self._prepared:  # while the model reads the prompt there is nothing else to do
            self._prepared = True
            self.run_worker(prepare, thread=True, exit_on_error=False)
        if self._tail is None:
            self._tail = TailView(opened=self._opened)
            self._log.mount(self._tail)
            self._show_welcome()

    def set_progress(self, text: str, fraction: float | None = None) -> None:
        """Say what happens before the first token, with a bar if `fraction` (0..1) is known; "" clears it."""
        if self._tail is not None:
            self._tail.set_progress(text, fraction)

    def feed_reasoning(self, text: str, label: str) -> None:
        """Add to what is thought before the running answer; `label` says how long it took so far."""
        if self._tail is not None:
            self._tail.feed_reasoning(text, label)

    def feed(self, text: str) -> None:
        """Add text to the running answer."""
        if self._tail is not None:
            self._tail.feed(text)

    def finish_reply(self, status: ReplyStatus, note: str = "") -> TranscriptMessage | None:
        """End the running answer and return it; None if there was no answer.

        An answer without text leaves only its note.
        """
        if (tail := self._tail) is None:
            return None
        self._tail = None
        message = tail.finish(status, note)
        if not tail.blocks:
            tail.remove()
            return None
        self._messages.append(message)
        return message

    def take_back(self) -> str:
        """Remove the newest question and its answer if nothing was answered yet.

        Return the question, "" otherwise.
        """
        views = list(self._log.query_children(MessageView))
        questions = [view for view in views if view.message.role == "user"]
        tail = self._tail
        if tail is None or tail.source or not questions:
            return ""
        question = questions[-1]
        self._tail = None
        self._messages = [message for message in self._messages if message is not question.message]
        self._log.remove_children([question, tail])
        self._show_welcome()
        return question.message.content

    # Scrolling, for keys that belong to other widgets

    def scroll_messages(self, how: Scroll) -> None:
        """Scroll as if the key had been pressed here."""
        log = self._log
        {
            "row_up": log.action_row_up,
            "row_down": log.action_row_down,
            "page_up": log.action_page_up,
            "page_down": log.action_page_down,
            "first": log.action_first,
            "end": log.action_follow,
        }[how]()

    @property
    def following(self) -> bool:
        """Whether the end of the conversation is kept in view."""
        return self._log.following

    # Inside

    def _answers(self) -> Iterator[str]:
        """Yield the sources of all answers, the newest first."""
        if self._tail is not None:
            yield self._tail.source
        for message in reversed(self._messages):
            if message.role == "assistant":
                yield message.content

    def _view_of(self, message: TranscriptMessage) -> MessageView:
        return MessageView(message, opened=self._opened)

    def _add(
        self, message: TranscriptMessage, severity: Severity = "information", actions: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._messages.append(message)
        self._show_welcome()
        self._log.mount(MessageView(message, severity=severity, actions=actions), before=self._tail)

    def _put_away(self) -> None:
        """Keep a long conversation cheap: turn its oldest messages back into data."""
        shown = len(self._messages) - self._first
        if shown > MOUNTED + _SLACK and self._log.following:
            views = list(self._log.query_children(MessageView))
            self._log.remove_children(views[: shown - MOUNTED])
            self._first += shown - MOUNTED
            self._show_earlier()

    def _show_earlier(self) -> None:
        self._earlier.update(f"↑ {self._first} earlier message{'s' if self._first > 1 else ''}")
        self._earlier.display = self._first > 0

    def _show_welcome(self) -> None:
        """Welcome who opens an empty conversation."""
        said = self._tail is not None or any(message.role != "notice" for message in self._messages)
        self._welcome.display = not said

    def _show_unseen(self, rows: int) -> None:
        self._badge.update(f"↓ {rows} new line{'s' if rows > 1 else ''} (End)")
        self._badge.set_class(rows > 0, "-shown")

    @on(Click, "#unseen")
    def _click_unseen(self, event: Click) -> None:
        event.stop()
        self._log.action_follow()

    @on(Click, "#earlier")
    @on(MouseScrollUp)
    @on(MessageLog.TopReached)
    def _go_up(self, event: Message) -> None:
        event.stop()
        self.load_earlier()

    @on(MessageView.ActionPressed)
    def _press_action(self, event: MessageView.ActionPressed) -> None:
        event.stop()
        self.post_message(self.Action(event.key))

    @on(MessageView.CodePressed)
    def _press_code(self, event: MessageView.CodePressed) -> None:
        event.stop()
        self.post_message(self.CopyRequested(event.code))


@lru_cache(maxsize=1024)
def _code_of(source: str) -> tuple[str, ...]:
    return tuple(code_blocks(clean(source, tab_size=None)))
