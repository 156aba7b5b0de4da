"""The chat: what keys, commands and the engine's messages do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import on, work
from textual.binding import BindingType

from colibri_tui import engine_link as link
from colibri_tui import paths
from colibri_tui.actions import COMMANDS, Command, UnknownCommandError, parse
from colibri_tui.bindings import bind, keymap_of
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
from colibri_tui.screens.tuning import ChatTuning
from colibri_tui.settings import read_state
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.transcript import Transcript
from engine.errors import EngineError

TWICE_SECONDS: Final = 1.5
"""Ctrl+C twice within this time quits."""


class ChatScreen(ChatTuning):
    """The one screen that is always there. It hears keys, commands and the engine; its `conductor` decides."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind(c.action, c.action, show=bool(c.footer), priority=not c.last) for c in COMMANDS if not c.required
    ]

    def __init__(self, launch: Launch, looks: Looks, problems: Sequence[str] = ()) -> None:
        """problems: what went wrong at the start, a line each."""
        super().__init__(launch, looks, problems)
        self._engine = EngineLink(self, launch.factory)
        self._journal = Journal(lambda: Conversations(paths.database_path()), self.report)
        self.conductor = Conductor(self, self._engine, self._journal, launch)
        self._interrupted = -TWICE_SECONDS

    def _arguments(self, command: Command) -> Sequence[str]:
        """Return what may follow a command, where that is not in its table."""
        if command.action == "theme":
            return sorted(self.app.available_themes)
        if command.action == "profile":
            try:
                return list_profiles()
            except EngineError:
                return ()
        return ()

    def on_mount(self) -> None:
        """Load the model that the program was started with, or ask for one."""
        self.restore_layout(read_state(paths.state_path()).layout)
        self.composer.arguments = self._arguments
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
        self.conductor.close(self.composer.draft)
        self._engine.close()

    def join(self, timeout: float) -> bool:
        """Wait until the engine has ended; say whether it did in time."""
        return self._engine.join(timeout)

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
            self.remember()

    @work(exclusive=True, group="conversation")
    async def _come_back(self, conversation: ConversationSummary | None, words: str = "") -> None:
        """Show a stored conversation, None: the last one; at the place with these words."""
        if conversation is not None:
            self._put_away()
        await self.conductor.come_back(conversation)
        if words:
            self.call_after_refresh(self.action_find, words)

    def _put_away(self) -> None:
        """Leave this conversation, and with it what is written; what belongs to none as yet goes along."""
        self.leave_editing()
        row = self.conductor.session.conversation
        self.conductor.new()
        if row is not None:
            self._journal.set_draft(row, self.composer.draft)
            self.composer.draft = ""

    @work(exclusive=True, group="history")
    async def _load_history(self) -> None:
        try:
            history = await self.conductor.ask(lambda store: store.prompt_history())
        except StoreError:
            return  # the journal has told it already
        self.composer.set_history(history)

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
            self.send(message.text)
        else:
            await self.run_action(command[0].call(command[1]))

    @on(Transcript.Action)
    async def _action(self, message: Transcript.Action) -> None:
        await self.run_action(message.key)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc stops while there is something to stop; else it leaves what there is to leave. It never does both."""
        busy = self.conductor.answering or bool(self.conductor.session.queue)
        if action == "stop":
            return busy
        if action == "back":
            inside = self.is_editing or self.transcript.chosen is not None or self.has_class("-enlarged")
            return not busy and (inside or not self.composer.has_focus)
        return True

    def action_stop(self) -> None:
        """Stop the answer."""
        self.conductor.stop()

    def action_back(self) -> None:
        """Leave an edit, a marked message, an enlarged pane, or whatever has the focus instead of the composer."""
        if self.is_editing:
            self.leave_editing()
        elif self.transcript.unchoose():
            self.refresh_bindings()
        elif not self.leave_enlarged():
            self.composer.focus()

    async def action_interrupt(self) -> None:
        """Copy what is selected; else stop the answer; else clear the draft; twice, and nothing between, quit."""
        selected = self.get_selected_text() or self.composer.selected_text
        if selected:
            self.clear_selection()
            self.composer.move_cursor(self.composer.cursor_location)
            self.copy(selected)
        elif self.conductor.answering:
            self.conductor.stop()
        elif not self.composer.text and time.monotonic() - self._interrupted < TWICE_SECONDS:
            await self.app.action_quit()
        else:
            self._interrupted = time.monotonic()
            self.composer.draft = ""
            self.notify(keymap_of(self.app).fill("{interrupt} again quits"), timeout=TWICE_SECONDS)

    def action_new(self) -> None:
        """Begin a new conversation."""
        self.conductor.new()

    def action_reset(self) -> None:
        """Begin a new conversation; what is known of this one is wiped."""
        self.conductor.reset()

    def action_ram(self, text: str = "") -> None:
        """Change the memory budget."""
        self.conductor.reconfigure("ram", text)

    def action_cap(self, text: str = "") -> None:
        """Change the expert slots a layer has."""
        self.conductor.reconfigure("cap", text)

    def action_context(self, text: str = "") -> None:
        """Change the longest conversation."""
        self.conductor.reconfigure("context", text)

    def action_more(self) -> None:
        """Continue the last answer."""
        self.conductor.more()

    def action_regenerate(self) -> None:
        """Answer the last prompt anew."""
        self.conductor.regenerate()

    def action_restart(self) -> None:
        """Load the model again."""
        self.conductor.restart()

    def action_restart_smaller(self) -> None:
        """Load the model again within less memory."""
        self.conductor.restart(smaller=True)

    def action_models(self) -> None:
        """Choose a model."""
        self.app.push_screen(ModelsScreen(self._looks.glyphs), self._opened)

    def action_conversations(self) -> None:
        """Choose a conversation."""

        screen = ConversationsScreen(self._journal, self.conductor.forget)

        def chosen(conversation: ConversationSummary | None) -> None:
            if conversation is not None:
                self._come_back(conversation, screen.words if conversation.found else "")

        self.app.push_screen(screen, chosen)

    def action_help(self) -> None:
        """Show keys and commands."""
        self.app.push_screen(HelpScreen())

    async def action_theme(self, name: str = "") -> None:
        """Put on other colours."""
        await self.app.run_action(f"theme({name!r})")

    def action_plan(self) -> None:
        """Tell where the memory goes."""
        ready = self.conductor.model.ready
        self.tell(plan_text(ready) if ready else "There is no memory plan before a model is loaded.")

    def action_reasoning(self) -> None:
        """Show what models thought before their answers, or a line for it."""
        shown = self.transcript.toggle_reasoning()
        if not self.transcript.last_reasoning():
            self.notify(f"Reasoning is {'shown' if shown else 'one line'} from now on; there is none here yet")

    def action_copy_reasoning(self) -> None:
        """Copy what was thought before the last answer."""
        if reasoning := self.transcript.last_reasoning():
            self.copy(reasoning)
        else:
            self.notify("There is no reasoning to copy")

    async def action_quit(self) -> None:
        """End the program."""
        await self.app.action_quit()

    def layout_changed(self) -> None:
        """Keep it for the next start."""
        super().layout_changed()
        self.remember()
        self.call_after_refresh(self.write_on)

    # What widgets say

    @on(Transcript.CopyRequested)
    def _copy_code(self, message: Transcript.CopyRequested) -> None:
        self.copy(message.text)

    @on(Composer.ScrollRequested)
    def _scroll(self, message: Composer.ScrollRequested) -> None:
        self.transcript.scroll_messages(message.how)

    @on(Composer.DraftChanged)
    def _keep_draft(self, message: Composer.DraftChanged) -> None:
        self.conductor.keep_draft(message.draft)
        self.count_draft(message.draft)

    # What the engine says

    @on(link.EngineCounted)
    def _counted(self, message: link.EngineCounted) -> None:
        self.show_count(message.number, message.tokens)

    @on(link.EngineLoading)
    @on(link.EngineReady)
    @on(link.EnginePrefill)
    @on(link.EngineText)
    @on(link.EngineTurn)
    @on(link.EngineNotice)
    @on(link.EngineState)
    @on(link.EngineHistory)
    @on(link.EngineError)
    @on(link.EngineDied)
    def _hear(self, message: link.EngineMessage) -> None:
        self.conductor.hear(message)
        if self._practice is not None:
            self._practice.hear(message)
        elif isinstance(message, link.EngineReady):
            self.offer_practice()
