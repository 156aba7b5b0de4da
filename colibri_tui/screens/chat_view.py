"""What the chat screen draws: the conversation, and beside it what the engine does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

from textual.app import ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Horizontal, Vertical
from textual.events import Key, Paste
from textual.getters import query_one
from textual.widgets import Input, Static, TextArea

from colibri_tui.bindings import keymap_of
from colibri_tui.key_names import is_typed
from colibri_tui.render.looks import Looks
from colibri_tui.screens.engine_view import EngineView
from colibri_tui.session import CUT, STOPPED, Said
from colibri_tui.view import Actions, Severity
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.find_bar import FindBar
from colibri_tui.widgets.hud import Hud
from colibri_tui.widgets.keys_footer import KeysFooter
from colibri_tui.widgets.loading import Loading
from colibri_tui.widgets.message_view import ReplyStatus, TranscriptMessage
from colibri_tui.widgets.pane_column import PaneColumn
from colibri_tui.widgets.queue_view import QueueView
from colibri_tui.widgets.status_line import StatusLine
from colibri_tui.widgets.suggestions import SuggestionList
from colibri_tui.widgets.transcript import Transcript
from colibri_tui.widgets.welcome import Welcome

STYLE_SHEET: Final = Path(__file__).with_name("chat.tcss")
PLACEHOLDER: Final = "Write a message"


class ChatView(EngineView):
    """The `View` of a conductor, which whoever derives from this sets as `conductor`."""

    AUTO_FOCUS = "#composer"
    HORIZONTAL_BREAKPOINTS = [(0, "-micro"), (40, "-tiny"), (60, "-narrow"), (100, "-wide"), (180, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (12, "-low"), (16, "-short"), (34, "-tall")]  # noqa: RUF012

    transcript = query_one("#transcript", Transcript)
    composer = query_one("#composer", Composer)

    def __init__(self, looks: Looks, problems: Sequence[str] = ()) -> None:
        """problems: what went wrong at the start, a line each."""
        super().__init__(looks)
        self._standing: list[tuple[str, Severity]] = [(problem, "warning") for problem in problems]
        self._stoppable = False

    def compose(self) -> ComposeResult:
        """Chat and side column; which of them is seen is the style sheet's business."""
        looks, glyphs = self._looks, self._looks.glyphs
        with Horizontal(id="main"):
            with Vertical(id="chat"):
                yield Transcript(id="transcript")
                yield FindBar()
                yield Loading(glyphs, id="loading")
                yield QueueView(id="queue")
                yield Hud(looks, id="hud")
                yield SuggestionList()
                yield Static(id="banner")
                yield Composer(placeholder=self._placeholder, id="composer")
            yield PaneColumn(looks, id="side")
        yield StatusLine(glyphs, id="status")
        yield KeysFooter(compact=True, show_command_palette=False)

    # Writing

    def write_on(self) -> None:
        """Let the composer hear the keys again when what heard them has gone."""
        gone = self.focused is None or not self.focused.region
        if gone and not self.has_class("-enlarged"):
            self.composer.focus()

    @property
    def _placeholder(self) -> str:
        newline = keymap_of(self.app).aside("composer_newline", " begins a new line")
        return f"{PLACEHOLDER}{newline}"

    def keys_changed(self) -> None:
        """Name other keys."""
        self.composer.placeholder = self._placeholder
        for welcome in self.query(Welcome):
            welcome.refresh(layout=True)
        self.set_looks(self._looks)

    @property
    def _letters_are_text(self) -> bool:
        """Whether what is typed is a message, whoever has the focus: while its line is in sight."""
        return self.side.enlarged is None and not isinstance(self.focused, Input | TextArea)

    def take_text(self, event: Key | Paste) -> None:
        """Give the composer the focus if this is for it. It comes here before anybody hears it: all that is typed
        goes the same way, and stays in order.
        """
        if isinstance(event, Key):
            wanted = event.is_printable and self._letters_are_text
        else:
            wanted = not isinstance(self.focused, Input | TextArea)
        if wanted:
            self.leave_enlarged()
            self.set_focus(self.composer)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """What keys mean now: letters mean themselves while one can write."""
        found = super().active_bindings
        return {key: one for key, one in found.items() if not is_typed(key)} if self._letters_are_text else found

    def report(self, line: str) -> None:
        """Tell an error above this conversation and the next ones; called in any thread."""
        self._standing.append((line, "error"))
        self.app.call_later(self.tell, line, "error")

    # What the conductor asks for

    def show_conversation(self, messages: list[Said]) -> None:
        """Show these messages instead of what was there; what stands from before is told again."""
        self.transcript.load([self._shown(said) for said in messages])
        for line, severity in self._standing:
            self.tell(line, severity)

    def _shown(self, said: Said) -> TranscriptMessage:
        """Return a message as the transcript takes it."""
        role: Literal["user", "assistant"] = "user" if said.role == "user" else "assistant"
        note, thought = self._note(said.status, said.note) or _attached(said), said.thought
        return TranscriptMessage(role, said.content, _ended(said.status), note, thought.text.strip(), thought.label())

    def _note(self, status: str, note: str) -> str:
        """Return the line under an answer; where it can be taken up again, with the key for it."""
        if status in (CUT, STOPPED) and keymap_of(self.app).keys("more"):
            return f"{note}; {keymap_of(self.app).said('more')} continues"
        return note

    def show_prompt(self, said: Said) -> None:
        """Show a prompt, and the place where its answer will appear."""
        self.transcript.add_user(said.content, _attached(said))
        self.transcript.start_reply()

    def show_reply(self, reply: Said | None) -> None:
        """Show the place where an answer will appear, with what it has already."""
        self.transcript.start_reply()
        if reply is not None:
            if reply.thought.text.strip():
                self.show_reasoning(reply.thought.text, reply.thought.label())
            self.transcript.feed(reply.content)

    def show_progress(self, text: str, fraction: float) -> None:
        """Say what happens before the first token."""
        self.transcript.set_progress(text, fraction)

    def show_reasoning(self, text: str, label: str) -> None:
        """Add to what is thought before the answer."""
        self.transcript.feed_reasoning(text, label)

    def show_text(self, text: str) -> None:
        """Add to the answer."""
        self.transcript.feed(text)

    def end_reply(self, status: str, note: str) -> None:
        """End the answer."""
        self.transcript.finish_reply(_ended(status), self._note(status, note))

    def take_back(self) -> None:
        """Remove the last prompt, which has no answer."""
        self.transcript.take_back()

    def tell(self, text: str, severity: Severity = "information", actions: Actions = ()) -> None:
        """Put a notice into the transcript."""
        if self.gone:
            return
        self.transcript.notice(text, severity, actions)

    def put_back(self, text: str) -> None:
        """Return a prompt to the composer, above what has been written there by now."""
        if not self.composer.put_back(text):
            self.composer.draft = f"{text}\n\n{self.composer.draft}"

    def set_draft(self, text: str) -> None:
        """Put a stored draft into the composer, unless something was typed there meanwhile."""
        self.composer.put_back(text)

    def state_changed(self) -> None:
        """Draw status, queue and progress; keys may mean something else now."""
        self.draw_status()
        self.query_one(QueueView).show([prompt.text for prompt in self.conductor.session.queue])
        loading = self.query_one(Loading)
        if (progress := self.conductor.progress) is not None:
            loading.show(*progress)
        else:
            loading.hide()
        self.composer.busy = self.conductor.answering
        stoppable = bool(self.check_action("stop", ()))
        if stoppable != self._stoppable:  # the footer is made anew for it
            self._stoppable = stoppable
            self.refresh_bindings()


def _ended(status: str) -> ReplyStatus:
    """Return the transcript's word for how a stored reply ended; one that grows belongs to another window."""
    words: tuple[ReplyStatus, ...] = get_args(ReplyStatus)
    return next((word for word in words if word == status), "interrupted")


def _attached(said: Said) -> str:
    """Return the line about the files that go along with a prompt."""
    return f"with {'; '.join(file.words for file in said.files)}" if said.files else ""
