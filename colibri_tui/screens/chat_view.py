"""What the chat screen draws: the conversation, and beside it what the engine does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, get_args

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.getters import query_one
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Static

from colibri_tui.conductor import Conductor
from colibri_tui.render.looks import Looks
from colibri_tui.session import Said
from colibri_tui.telemetry import Reads, Sample, reads_of
from colibri_tui.view import Actions, Severity
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.find_bar import FindBar
from colibri_tui.widgets.loading import Loading
from colibri_tui.widgets.message_view import ReplyStatus, TranscriptMessage
from colibri_tui.widgets.panels import Panel
from colibri_tui.widgets.queue_view import QueueView
from colibri_tui.widgets.status_line import StatusLine
from colibri_tui.widgets.suggestions import SuggestionList
from colibri_tui.widgets.transcript import Transcript
from engine.events import Turn

STYLE_SHEET: Final = Path(__file__).with_name("chat.tcss")
PLACEHOLDER: Final = "Write a message. Enter sends, Ctrl+J begins a new line"
FRAME_SECONDS: Final = 0.1
REMOTE_FRAME_SECONDS: Final = 0.5
"""Over ssh every frame crosses a network."""
STATUS_FRAMES: Final = 3
"""Figures in the status line change every so many frames, or they could not be read."""


CALM_FRAME_SECONDS: Final = 1.0
"""For those who asked for little motion."""


def frame_seconds(*, calm: bool = False) -> float:
    """Return the time between two frames of what the engine does."""
    if calm:
        return CALM_FRAME_SECONDS
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    return REMOTE_FRAME_SECONDS if remote else FRAME_SECONDS


class ChatView(Screen[None]):
    """The `View` of a conductor, which whoever derives from this sets as `conductor`."""

    AUTO_FOCUS = "#composer"
    HORIZONTAL_BREAKPOINTS = [(0, "-micro"), (40, "-tiny"), (60, "-narrow"), (100, "-wide"), (180, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (12, "-low"), (16, "-short"), (34, "-tall")]  # noqa: RUF012

    conductor: Conductor

    transcript = query_one("#transcript", Transcript)
    composer = query_one("#composer", Composer)
    side = query_one("#side", Panel)
    hud = query_one("#hud", Panel)
    status = query_one("#status", StatusLine)

    def __init__(self, looks: Looks, problems: Sequence[str] = ()) -> None:
        """problems: what went wrong at the start, a line each."""
        super().__init__()
        self._looks = looks
        self._standing: list[tuple[str, Severity]] = [(problem, "warning") for problem in problems]
        self._frame_seconds = frame_seconds()
        self._ticker: Timer | None = None
        self._frames = 0
        self._stoppable = False
        self._sample: Sample | None = None
        self._reads: Reads | None = None  # of the turn that runs or ran last

    def compose(self) -> ComposeResult:
        """Chat and side column; which of them is seen is the style sheet's business."""
        looks, glyphs = self._looks, self._looks.glyphs
        with Horizontal(id="main"):
            with Vertical(id="chat"):
                yield Transcript(id="transcript")
                yield FindBar()
                yield Loading(glyphs, id="loading")
                yield QueueView(id="queue")
                yield Panel(looks, line=True, id="hud")
                yield SuggestionList()
                yield Static(id="banner")
                yield Composer(placeholder=PLACEHOLDER, id="composer")
            yield Panel(looks, id="side")
        yield StatusLine(glyphs, id="status")
        yield Footer(compact=True, show_command_palette=False)

    def on_resize(self) -> None:
        """Other widgets are seen now: they have not been kept up to date."""
        self.call_after_refresh(self.draw_sample)

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = looks
        self.side.set_looks(looks)
        self.hud.set_looks(looks)

    def report(self, line: str) -> None:
        """Tell an error above this conversation and the next ones; called in any thread."""
        self._standing.append((line, "error"))
        self.app.call_later(self.tell, line, "error")

    # What the conductor asks for

    @property
    def gone(self) -> bool:
        """Whether the program ends: widgets may be taken away already."""
        return not self.app.is_running

    def show_conversation(self, messages: list[Said]) -> None:
        """Show these messages instead of what was there; what stands from before is told again."""
        self.transcript.load([_shown(said) for said in messages])
        for line, severity in self._standing:
            self.tell(line, severity)

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
        self.transcript.finish_reply(_ended(status), note)

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

    def turn_began(self) -> None:
        """Draw the board from now on."""
        self._frames = 0
        if self._ticker is None:
            self._ticker = self.set_interval(self._frame_seconds, self._tick)

    def turn_ended(self, turn: Turn | None) -> None:
        """Draw the board once more, and then no longer."""
        self._stop_ticking()
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=False) if telemetry else None
        if self._sample is not None:
            self._reads = reads_of(turn, self._sample.turn) if turn else self._sample.turn
        self.draw_sample(settled=True)

    def model_changed(self) -> None:
        """Draw the new model's board, or nothing."""
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=False) if telemetry else None
        self._reads = self._sample.turn if self._sample else None
        self._stop_ticking()
        if self._sample is None:
            self.side.clear()
            self.hud.clear()
        self.draw_sample(settled=True)

    def state_changed(self) -> None:
        """Draw status, queue and progress; keys may mean something else now."""
        self._draw_status()
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

    # Drawing what the engine does

    def _stop_ticking(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def _tick(self) -> None:
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=True) if telemetry else None
        if self._sample is not None:
            self._reads = self._sample.turn
            self.draw_sample()
            self._frames += 1
            if self._frames % STATUS_FRAMES == 0:
                self._draw_status()

    def draw_sample(self, *, settled: bool = False) -> None:
        """Draw what was sampled last; settled: see `Atlas.show`."""
        if self._sample is not None and self._reads is not None and not self.gone:
            self.side.show(self._sample, self._reads, settled=settled)
            self.hud.show(self._sample, self._reads, settled=settled)

    def _draw_status(self) -> None:
        status, sample = self.conductor.status, self._sample
        if sample is not None:
            live = sample.tok_s if self.conductor.answering else None
            status = replace(status, context_used=sample.context_used, tok_s=live or status.tok_s)
        self.status.status = status


def _ended(status: str) -> ReplyStatus:
    """Return the transcript's word for how a stored reply ended; one that grows belongs to another window."""
    words: tuple[ReplyStatus, ...] = get_args(ReplyStatus)
    return next((word for word in words if word == status), "interrupted")


def _shown(said: Said) -> TranscriptMessage:
    """Return a message as the transcript takes it."""
    role: Literal["user", "assistant"] = "user" if said.role == "user" else "assistant"
    note, thought = said.note or _attached(said), said.thought
    return TranscriptMessage(role, said.content, _ended(said.status), note, thought.text.strip(), thought.label())


def _attached(said: Said) -> str:
    """Return the line about the files that go along with a prompt."""
    return f"with {'; '.join(file.words for file in said.files)}" if said.files else ""
