"""What people do in a chat besides chatting: edit and send anew, copy, find, export, write elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from textual import on, work
from textual.app import SuspendNotSupported
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from colibri_tui import clipboard, editor, export
from colibri_tui.attachments import Attachment, names, read_attachments, with_files
from colibri_tui.bindings import keymap_of
from colibri_tui.completion import list_paths
from colibri_tui.database import StoreError
from colibri_tui.excerpts import title_of
from colibri_tui.journal import Row
from colibri_tui.render.looks import Looks
from colibri_tui.screens.chat_view import ChatView
from colibri_tui.screens.prompts import PromptsScreen
from colibri_tui.session import Prompt, Said
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.find_bar import FindBar
from colibri_tui.widgets.suggestions import SuggestionList
from engine.errors import EngineError

HISTORY: Final = 5000
"""Prompts that can be looked through."""
COUNT_SECONDS: Final = 2.0
"""A prompt waits so long for its count before it is sent all the same."""


class ChatHabits(ChatView):
    """The part of the chat screen that is about words, not about the engine."""

    finding = query_one(FindBar)

    def __init__(self, looks: Looks, problems: Sequence[str] = ()) -> None:
        """See `ChatView`."""
        super().__init__(looks, problems)
        self._sending = asyncio.Lock()
        self._count = 0  # of the draft that was counted last
        self._unsent = 0  # prompts whose files are being read or that are counted, and those behind them
        self._asked = 0  # prompts that were counted before they were sent
        self._counting: dict[int, asyncio.Future[int]] = {}

    _editing: int | None = None  # the message that is being written anew
    _before_editing = ""  # the draft there was then
    _copied = 0  # how many pieces of code from the end the last copied one was; 0: none was
    _deleting: Row | None = None  # the conversation that was asked about

    # Sending

    def send(self, text: str) -> None:
        """Send a prompt with the files it names; it comes back if they cannot be sent."""
        self._deleting = None
        if names(text) or self._unsent or self._may_overflow(self._as_prompt(text)):
            self._unsent += 1
            self._send_later(text)
        else:
            self._submit(text)

    @work(group="send")
    async def _send_later(self, text: str) -> None:
        """Send a prompt once its files are read, and those before it are sent."""
        async with self._sending:
            try:
                files = await asyncio.to_thread(read_attachments, text)
            except EngineError as error:
                self.put_back(text)
                self.tell(f"{error}.", "warning")
            else:
                prompt = self._as_prompt(text, files)
                if not self._may_overflow(prompt) or await self._fits(prompt):
                    self._submit(text, files)
            finally:
                self._unsent -= 1

    def _as_prompt(self, text: str, files: tuple[Attachment, ...] = ()) -> Prompt:
        return Prompt(text, files, self._editing)

    def _submit(self, text: str, files: tuple[Attachment, ...] = ()) -> None:
        prompt = self._as_prompt(text, files)
        self._end_editing(self._before_editing)
        self.conductor.submit(prompt.text, prompt.files, prompt.replaces)

    def _may_overflow(self, prompt: Prompt) -> bool:
        """Whether it takes counting to know that the conversation fits: no token has less than a byte."""
        context = self.conductor.status.context
        return bool(context) and len(self.conductor.session.text_with(prompt).encode(errors="replace")) > context

    async def _fits(self, prompt: Prompt) -> bool:
        """Count what the engine would be given; if that is more than the context has room for, return the prompt."""
        self._asked += 1
        number, context = -self._asked, self.conductor.status.context
        answer = self._counting[number] = asyncio.get_running_loop().create_future()
        try:
            self.conductor.count(number, self.conductor.session.text_with(prompt))
            tokens = await asyncio.wait_for(answer, COUNT_SECONDS)
        except TimeoutError:  # no engine to ask, or a busy one: it refuses by itself what it cannot hold
            return True
        finally:
            del self._counting[number]
        if tokens < context:
            return True
        self.put_back(prompt.text)
        self.tell(
            f"This does not fit: the conversation would have {tokens:,} tokens, and the context has room for "
            f"{context:,}. Shorten it, begin a new conversation{keymap_of(self.app).aside('new')}, or make room with "
            "/context N.",
            "warning",
        )
        return False

    # Editing what was asked

    def action_edit(self) -> None:
        """Write a prompt anew: the chosen one, or the last; again, the one before."""
        messages = self.conductor.session.messages
        asked = [number for number, said in enumerate(messages) if said.role == "user"]
        chosen = self.transcript.chosen_number
        if self._editing is not None:
            asked = [number for number in asked if number < self._editing] or asked
        elif chosen is not None:
            asked = [number for number in asked if number <= chosen]
        if not asked:
            self.notify("There is no prompt to edit")
            return
        if self._editing is None:
            self._before_editing = self.composer.draft
        self.transcript.unchoose()
        self._edit(asked[-1], messages[asked[-1]])

    def _edit(self, number: int, said: Said) -> None:
        self._editing = number
        self.composer.draft = said.content
        self.composer.focus()
        after = len(self.conductor.session.messages) - number - 1
        follows = f" and the {after} message{'s' * (after > 1)} after it" if after else ""
        words = f"Editing: {{composer_submit}} replaces this prompt{follows}, {{edit}} takes the one before, {{back}} "
        self._banner(keymap_of(self.app).fill(f"{words}leaves it"))

    @property
    def is_editing(self) -> bool:
        """Whether a prompt is being written anew."""
        return self._editing is not None

    def leave_editing(self) -> None:
        """Let the prompt be as it was."""
        self._end_editing(self._before_editing)

    def _end_editing(self, draft: str) -> None:
        if self._editing is not None:
            self._editing, self._before_editing = None, ""
            self._banner("")
            self.composer.draft = draft
            self.refresh_bindings()

    def _banner(self, words: str) -> None:
        banner = self.query_one("#banner", Static)
        banner.update(Content(words))
        banner.display = bool(words)
        self.refresh_bindings()

    @work(exclusive=True, group="conversation")
    async def action_branch(self) -> None:
        """Go on in a copy."""
        await self.conductor.branch()

    # Copying

    def action_choose_before(self) -> None:
        """Mark the message before."""
        self.transcript.choose(-1)
        self.refresh_bindings()

    def action_choose_after(self) -> None:
        """Mark the message after."""
        self.transcript.choose(1)
        self.refresh_bindings()

    def action_copy(self, what: str = "") -> None:
        """Copy the chosen message, else the last answer; `code N` or `all` instead."""
        word, _, number = what.partition(" ")
        if word == "code":
            self._copy_piece(int(number) if number.isdecimal() else 1)
            return
        if word == "all":
            text = "\n\n".join(said.content for said in self.conductor.session.messages)
        elif word:
            self.notify(f"There is no “{word}” to copy; code, code N or all are", severity="warning", markup=False)
            return
        else:
            chosen = self.transcript.chosen
            text = chosen.content if chosen is not None else self.transcript.last_answer()
        if text:
            self.copy(text)
        else:
            self.notify("There is no answer to copy")

    def action_copy_code(self) -> None:
        """Copy the newest piece of code; again, the one before."""
        pieces = len(self.transcript.code_blocks())
        self._copied = self._copied % pieces + 1 if pieces else 0
        self._copy_piece(self._copied)

    def _copy_piece(self, number: int) -> None:
        """Copy a piece of code, counted from the newest."""
        pieces = self.transcript.code_blocks()
        if not pieces:
            self.notify("There is no code to copy")
        elif not 1 <= number <= len(pieces):
            self.notify(f"There are {len(pieces)} pieces of code", severity="warning")
        else:
            lines = pieces[-number].count("\n") + 1
            which = f"{number} of {len(pieces)}, {lines} line{'s' * (lines > 1)}"
            self.copy(pieces[-number], f"code {which} ")

    @work(thread=True, exclusive=True, group="copy")
    def copy(self, text: str, what: str = "") -> None:
        """Put text on the clipboard, and say how."""
        program = clipboard.copy(text)
        self.app.call_from_thread(self.app.copy_to_clipboard, text)
        how = f"with {program}" if program else "through the terminal, if it allows that"
        self.app.call_from_thread(self.notify, f"Copied {what}{how}")

    # Finding

    def action_find(self, words: str = "") -> None:
        """Look for words in this conversation."""
        self.finding.open(words)

    @on(FindBar.Wanted)
    def _find(self, message: FindBar.Wanted) -> None:
        self.finding.show(self.transcript.find(message.text))

    @on(FindBar.Step)
    def _find_next(self, message: FindBar.Step) -> None:
        self.finding.show(self.transcript.find_next(message.step))

    @on(FindBar.Closed)
    def _end_finding(self) -> None:
        self.transcript.find("")
        self.composer.focus()

    @work(exclusive=True, group="history")
    async def action_history(self) -> None:
        """Look for an earlier prompt and write it into the composer."""
        try:
            prompts = await self.conductor.ask(lambda store: store.prompt_history(HISTORY))
        except StoreError as error:
            self.tell(str(error), "error")
            return

        def chosen(prompt: str | None) -> None:
            if prompt is not None:
                self.composer.draft = prompt

        self.app.push_screen(PromptsScreen(prompts), chosen)

    # Conversations as a whole

    @work(exclusive=True, group="export")
    async def action_export(self, kind: str = "md") -> None:
        """Write this conversation to a file in the present folder."""
        if kind not in ("md", "json"):
            self.tell(f"There is no format “{kind}”: md and json are.", "warning")
            return
        form: export.Format = "json" if kind == "json" else "md"
        stored = await self.conductor.stored()
        if stored is None:
            self.tell("There is nothing to export yet.")
            return
        try:
            file = await asyncio.to_thread(export.write, Path.cwd(), form, *stored)
        except EngineError as error:
            self.tell(f"{error}.", "error")
        else:
            self.tell(f"Exported to {file}")

    @work(exclusive=True, group="rename")
    async def action_rename(self, title: str = "") -> None:
        """Give this conversation another title."""
        if not title_of(title):
            self.composer.draft = "/rename "
        else:
            await self.conductor.rename(title)

    @work(exclusive=True, group="delete")
    async def action_delete(self) -> None:
        """Delete this conversation, when asked a second time."""
        row = self.conductor.session.conversation
        if row is None:
            self.tell("There is nothing to delete yet.")
        elif self._deleting is not row:
            self._deleting = row
            self.tell("Delete this conversation for good?", "warning", (("delete", "delete it"), ("keep", "keep it")))
        else:
            await self.conductor.delete()

    def action_keep(self) -> None:
        """Delete nothing."""
        self._deleting = None
        self.notify("Kept")

    # What holds for this conversation

    def action_system(self, text: str = "") -> None:
        """Set the system prompt."""
        self.conductor.configure("system", text)

    def action_temperature(self, text: str = "") -> None:
        """Set the temperature."""
        self.conductor.configure("temperature", text)

    def action_nucleus(self, text: str = "") -> None:
        """Set the nucleus."""
        self.conductor.configure("nucleus", text)

    def action_max_tokens(self, text: str = "") -> None:
        """Set the length of answers."""
        self.conductor.configure("max_tokens", text)

    def action_seed(self, text: str = "") -> None:
        """Set the seed."""
        self.conductor.configure("seed", text)

    # Writing

    def action_editor(self) -> None:
        """Write the draft in another program."""
        try:
            with self.app.suspend():
                text = editor.edit(self.composer.draft)
        except SuspendNotSupported:
            self.notify("This terminal cannot be lent to an editor", severity="warning")
        except EngineError as error:
            self.tell(f"{error}.", "warning")
        else:
            self.composer.draft = text
            self.composer.focus()

    def count_draft(self, draft: str) -> None:
        """Ask how many tokens the draft has, with the files it names."""
        self._count += 1
        if draft.strip():
            self._ask_count(self._count, draft)
        else:
            self.show_count(self._count, 0)

    @work(exclusive=True, group="count")
    async def _ask_count(self, number: int, draft: str) -> None:
        files: tuple[Attachment, ...] = ()
        if names(draft):
            with suppress(EngineError):  # told when it is sent
                files = await asyncio.to_thread(read_attachments, draft)
        self.conductor.count(number, with_files(draft, files))

    def show_count(self, number: int, tokens: int) -> None:
        """Take the answer, unless something else was written since."""
        if number in self._counting:
            self._counting[number].set_result(tokens)
        elif number == self._count:
            self.conductor.draft_tokens = tokens
            self.state_changed()

    @on(Composer.Suggested)
    def _show_suggestions(self, message: Composer.Suggested) -> None:
        self.query_one(SuggestionList).show(message.suggestions, message.chosen)

    @on(SuggestionList.Picked)
    def _take_suggestion(self, message: SuggestionList.Picked) -> None:
        self.composer.accept(message.number)
        self.composer.focus()

    @on(Composer.PathsWanted)
    @work(exclusive=True, group="paths")
    async def _list_paths(self, message: Composer.PathsWanted) -> None:
        found = await asyncio.to_thread(list_paths, message.partial, message.line)
        self.composer.offer(message.line, found)
