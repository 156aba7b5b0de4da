"""The chat, and beside it what the engine does."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, get_args

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.getters import query_one
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from colibri_tui import clipboard, paths
from colibri_tui import engine_link as link
from colibri_tui.actions import COMMANDS, UnknownCommandError, parse
from colibri_tui.conductor import Conductor
from colibri_tui.conversations import Conversations, ConversationSummary
from colibri_tui.database import StoreError
from colibri_tui.engine_link import EngineLink
from colibri_tui.journal import Journal
from colibri_tui.launch import Launch
from colibri_tui.models import is_model
from colibri_tui.plan_text import plan_text
from colibri_tui.profiles import list_profiles
from colibri_tui.render.looks import Looks
from colibri_tui.screens.conversations import ConversationsScreen
from colibri_tui.screens.help import HelpScreen
from colibri_tui.screens.models import ModelsScreen
from colibri_tui.session import Said
from colibri_tui.settings import State, read_state, write_state
from colibri_tui.telemetry import Reads, Sample, reads_of
from colibri_tui.view import Actions, Severity
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.loading import Loading
from colibri_tui.widgets.message_view import ReplyStatus, TranscriptMessage
from colibri_tui.widgets.panels import Panel
from colibri_tui.widgets.queue_view import QueueView
from colibri_tui.widgets.status_line import StatusLine
from colibri_tui.widgets.transcript import Transcript
from engine.errors import EngineError
from engine.events import Turn

STYLE_SHEET = Path(__file__).with_suffix(".tcss")
PLACEHOLDER = "Write a message. Enter sends, Ctrl+J begins a new line"
TWICE_SECONDS = 1.5
"""Ctrl+C twice within this time quits."""
FRAME_SECONDS = 0.1
REMOTE_FRAME_SECONDS = 0.5
"""Over ssh every frame crosses a network."""
STATUS_FRAMES = 3
"""Figures in the status line change every so many frames, or they could not be read."""


class ChatScreen(Screen[None]):
    """The one screen that is always there. It draws; what happens is decided by its `conductor`."""

    AUTO_FOCUS = "#composer"
    HORIZONTAL_BREAKPOINTS = [(0, "-micro"), (40, "-tiny"), (60, "-narrow"), (100, "-wide"), (180, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (12, "-low"), (16, "-short"), (34, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(c.key, c.action, c.footer or c.title, show=bool(c.footer), priority=c.priority, id=c.action)
        for c in COMMANDS
        if c.key
    ]

    transcript = query_one("#transcript", Transcript)
    composer = query_one("#composer", Composer)
    side = query_one("#side", Panel)
    hud = query_one("#hud", Panel)
    status = query_one("#status", StatusLine)

    def __init__(self, launch: Launch, looks: Looks, problems: Sequence[str] = ()) -> None:
        """problems: what went wrong at the start, a line each."""
        super().__init__()
        self._standing: list[tuple[str, Severity]] = [(problem, "warning") for problem in problems]
        self._launch = launch
        self._looks = looks
        self._engine = EngineLink(self, launch.factory)
        self._journal = Journal(lambda: Conversations(paths.database_path()), self._report)
        self.conductor = Conductor(self, self._engine, self._journal, launch)
        self._ticker: Timer | None = None
        self._frames = 0
        self._sample: Sample | None = None
        self._reads: Reads | None = None  # of the turn that runs or ran last
        self._interrupted = -TWICE_SECONDS

    def compose(self) -> ComposeResult:
        """Chat and side column; which of them is seen is the style sheet's business."""
        looks, glyphs = self._looks, self._looks.glyphs
        with Horizontal(id="main"):
            with Vertical(id="chat"):
                yield Transcript(id="transcript")
                yield Loading(glyphs, id="loading")
                yield QueueView(id="queue")
                yield Panel(looks, line=True, id="hud")
                yield Composer(placeholder=PLACEHOLDER, id="composer")
            yield Panel(looks, id="side")
        yield StatusLine(glyphs, id="status")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Load the model that the program was started with, or ask for one."""
        remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
        self._ticker = self.set_interval(REMOTE_FRAME_SECONDS if remote else FRAME_SECONDS, self._tick, pause=True)
        self.set_class(read_state(paths.state_path()).layout.get("side") is False, "-no-side")
        self._load_history()
        if self._launch.model is None:
            self.show_conversation([])
            self.state_changed()
            self.call_after_refresh(self.action_models)
        else:
            self.open(self._launch.model)

    def on_unmount(self) -> None:
        """Let the engine save and end, and the journal write what it still has."""
        self._engine.close()
        self._journal.close()

    def close(self) -> None:
        """Keep what would be lost with the screen; nothing more is answered."""
        self._engine.close()
        self.conductor.close(self.composer.draft)

    def on_resize(self) -> None:
        """Other widgets are seen now: they have not been kept up to date."""
        self.call_after_refresh(self._draw_sample)

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = looks
        self.side.set_looks(looks)
        self.hud.set_looks(looks)

    def _report(self, line: str) -> None:
        """Tell what the journal has to say, above this conversation and the next ones; called in any thread."""
        self._standing.append((line, "error"))
        self.app.call_later(self.tell, line, "error")

    # Models and conversations

    def open(self, folder: Path) -> None:
        """Load a model; one that has to be built first is built by the model screen."""
        if not is_model(folder):
            self.app.push_screen(ModelsScreen(self._looks.glyphs, folder), self._opened)
        else:
            self._opened(folder)

    def _opened(self, folder: Path | None) -> None:
        if folder is not None and self.conductor.open(folder):
            self._come_back(None)
            self._remember()

    @work(exclusive=True, group="conversation")
    async def _come_back(self, conversation: ConversationSummary | None) -> None:
        if conversation is None:
            await self.conductor.come_back()
        else:
            await self.conductor.resume(conversation)

    @work(exclusive=True, group="history")
    async def _load_history(self) -> None:
        try:
            history = await self.conductor.ask(lambda store: store.prompt_history())
        except StoreError:
            return  # the journal has told it already
        self.composer.set_history(history)

    @work(thread=True, exclusive=True, group="state")
    def _remember(self) -> None:
        """Store what the next start of the program should find."""
        folder, layout = self.conductor.model.folder, {"side": not self.has_class("-no-side")}
        state = State(str(folder) if folder else None, self.conductor.model.profile, layout=layout)
        try:
            write_state(paths.state_path(), state)
        except EngineError as error:
            self._report(str(error))

    # Commands

    @on(Composer.Submitted)
    async def _submitted(self, message: Composer.Submitted) -> None:
        try:
            command = parse(message.text)
        except UnknownCommandError as error:
            self.put_back(message.text)
            self.tell(f"{str(error)[0].upper()}{str(error)[1:]}.", "warning")
            return
        if command is None:
            self.conductor.submit(message.text)
        elif command[0].argument:
            self.action_profile(command[1])
        else:
            await self.run_action(command[0].action)

    @on(Transcript.Action)
    async def _action(self, message: Transcript.Action) -> None:
        if message.key == "restart_smaller":
            self.conductor.restart(smaller=True)
        else:
            await self.run_action(message.key)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Stop exists only while there is something to stop or to leave."""
        if action == "stop":
            return self.conductor.answering or bool(self.conductor.session.queue) or self.has_class("-atlas")
        return True

    def action_stop(self) -> None:
        """Stop the answer, or leave the atlas."""
        if self.conductor.answering or self.conductor.session.queue:
            self.conductor.stop()
        else:
            self.action_atlas()

    async def action_interrupt(self) -> None:
        """Copy what is selected; else stop the answer; else clear the draft; twice, quit."""
        selected = self.get_selected_text() or self.composer.selected_text
        if selected:
            self.clear_selection()
            self.composer.move_cursor(self.composer.cursor_location)
            self.copy(selected)
        elif self.conductor.answering:
            self.conductor.stop()
        elif time.monotonic() - self._interrupted < TWICE_SECONDS:
            await self.app.action_quit()
        else:
            self._interrupted = time.monotonic()
            self.composer.draft = ""
            self.notify("Ctrl+C again quits", timeout=TWICE_SECONDS)

    def action_new(self) -> None:
        """Begin a new conversation."""
        self.conductor.new()

    def action_more(self) -> None:
        """Continue the last answer."""
        self.conductor.more()

    def action_regenerate(self) -> None:
        """Answer the last prompt anew."""
        self.conductor.regenerate()

    def action_restart(self) -> None:
        """Load the model again."""
        self.conductor.restart()

    def action_profile(self, name: str = "") -> None:
        """Use another profile; without a name, tell which there are."""
        if name:
            self.conductor.use_profile(name)
            self._remember()
            return
        try:
            names = ", ".join(list_profiles())
        except EngineError as error:
            self.tell(str(error), "error")
        else:
            self.tell(f"Profiles: {names}. /profile NAME uses one; a new name begins a new one.")

    def action_models(self) -> None:
        """Choose a model."""
        self.app.push_screen(ModelsScreen(self._looks.glyphs), self._opened)

    def action_conversations(self) -> None:
        """Choose a conversation."""

        def chosen(conversation: ConversationSummary | None) -> None:
            if conversation is not None:
                self._come_back(conversation)

        self.app.push_screen(ConversationsScreen(self._journal, self.conductor.forget), chosen)

    def action_help(self) -> None:
        """Show keys and commands."""
        self.app.push_screen(HelpScreen())

    def action_plan(self) -> None:
        """Tell where the memory goes."""
        ready = self.conductor.model.ready
        self.tell(plan_text(ready) if ready else "There is no memory plan before a model is loaded.")

    def action_copy(self) -> None:
        """Copy the last answer."""
        answer = self.transcript.last_answer()
        if answer:
            self.copy(answer)
        else:
            self.notify("There is no answer to copy")

    async def action_quit(self) -> None:
        """End the program."""
        await self.app.action_quit()

    def action_side(self) -> None:
        """Show or hide what stands beside the chat."""
        self.toggle_class("-no-side")
        self.call_after_refresh(self._draw_sample)
        self._remember()

    def action_atlas(self) -> None:
        """Give the atlas the whole screen, or the chat its place back."""
        self.toggle_class("-atlas")
        (self.side.atlas if self.has_class("-atlas") else self.composer).focus()
        self.refresh_bindings()
        self.call_after_refresh(self._draw_sample)

    def action_view(self) -> None:
        """Switch the atlas between heat and tiers."""
        self.side.atlas.action_view()

    def action_order(self) -> None:
        """Switch the order of experts."""
        self.side.atlas.action_order()

    @work(thread=True, exclusive=True, group="copy")
    def copy(self, text: str) -> None:
        """Put text on the clipboard, and say how."""
        program = clipboard.copy(text)
        self.app.call_from_thread(self.app.copy_to_clipboard, text)
        how = f"with {program}" if program else "through the terminal, if it allows that"
        self.app.call_from_thread(self.notify, f"Copied {how}")

    # What widgets say

    @on(Transcript.CopyRequested)
    def _copy_code(self, message: Transcript.CopyRequested) -> None:
        self.copy(message.text)

    @on(Composer.ScrollRequested)
    def _scroll(self, message: Composer.ScrollRequested) -> None:
        self.transcript.scroll_messages(message.how)

    @on(Composer.DraftChanged)
    def _keep_draft(self, message: Composer.DraftChanged) -> None:
        self._journal.set_draft(self.conductor.session.conversation, message.draft)

    # What the engine says, and what the conductor asks for

    @on(link.EngineLoading)
    @on(link.EngineReady)
    @on(link.EnginePrefill)
    @on(link.EngineText)
    @on(link.EngineTurn)
    @on(link.EngineNotice)
    @on(link.EngineError)
    @on(link.EngineDied)
    def _hear(self, message: link.EngineMessage) -> None:
        self.conductor.hear(message)

    @property
    def gone(self) -> bool:
        """Whether the program ends: widgets may be taken away already."""
        return not self.app.is_running

    def show_conversation(self, messages: list[Said]) -> None:
        """Show these messages instead of what was there; what stands from before is told again."""
        self.transcript.load([_shown(said) for said in messages])
        for line, severity in self._standing:
            self.tell(line, severity)

    def show_prompt(self, text: str) -> None:
        """Show a prompt, and the place where its answer will appear."""
        self.transcript.add_user(text)
        self.transcript.start_reply()

    def show_reply(self, base: str) -> None:
        """Show the place where an answer will appear, with what it has already."""
        self.transcript.start_reply()
        self.transcript.feed(base)

    def show_progress(self, text: str, fraction: float) -> None:
        """Say what happens before the first token."""
        self.transcript.set_progress(text, fraction)

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
        """Return a prompt to the composer; if something is written there by now, it is in the history."""
        if not self.composer.put_back(text):
            self.tell("What was not sent is one Up away, above what you have begun to write.")

    def set_draft(self, text: str) -> None:
        """Put a stored draft into the composer, unless something was typed there meanwhile."""
        self.composer.put_back(text)

    def turn_began(self) -> None:
        """Draw the board from now on."""
        self._frames = 0
        if self._ticker is not None:
            self._ticker.resume()

    def turn_ended(self, turn: Turn | None) -> None:
        """Draw the board once more, and then no longer."""
        if self._ticker is not None:
            self._ticker.pause()
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=False) if telemetry else None
        if self._sample is not None:
            self._reads = reads_of(turn, self._sample.turn) if turn else self._sample.turn
        self._draw_sample(settled=True)

    def model_changed(self) -> None:
        """Draw the new model's board, or nothing."""
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=False) if telemetry else None
        self._reads = self._sample.turn if self._sample else None
        if self._ticker is not None:
            self._ticker.pause()
        if self._sample is None:
            self.side.clear()
            self.hud.clear()
        self._draw_sample(settled=True)

    def state_changed(self) -> None:
        """Draw status, queue and progress; keys may mean something else now."""
        self._draw_status()
        self.query_one(QueueView).show(self.conductor.session.queue)
        loading = self.query_one(Loading)
        if (progress := self.conductor.progress) is not None:
            loading.show(*progress)
        else:
            loading.hide()
        self.composer.busy = self.conductor.answering
        self.refresh_bindings()

    # Drawing what the engine does

    def _tick(self) -> None:
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=True) if telemetry else None
        if self._sample is not None:
            self._reads = self._sample.turn
            self._draw_sample()
            self._frames += 1
            if self._frames % STATUS_FRAMES == 0:
                self._draw_status()

    def _draw_sample(self, *, settled: bool = False) -> None:
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
    return TranscriptMessage(role, said.content, _ended(said.status), said.note)
