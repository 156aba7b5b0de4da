"""The list of conversations: find one, resume it, give it another name, delete it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.conversations import Conversations, ConversationSummary
from colibri_tui.database import StoreError
from colibri_tui.journal import Journal, Result
from colibri_tui.render.clean import clean
from colibri_tui.widgets.choice_list import ChoiceList

LIMIT = 200
HINT = "{list_choose} resumes   {conversations_rename} renames   {conversations_delete} deletes   {close} closes"


def when(then: float, now: float) -> str:
    """Return how long ago something was: 'now', '5 min', '3 h', '2 days', or a date."""
    minutes = max(0, now - then) / 60
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes:.0f} min"
    if minutes < 24 * 60:
        return f"{minutes / 60:.0f} h"
    if minutes < 7 * 24 * 60:
        days = round(minutes / (24 * 60))
        return f"{days} day{'s' * (days > 1)}"
    return time.strftime("%Y-%m-%d", time.localtime(then))


def ago(then: float, now: float) -> str:
    """Return `when` for use in a sentence: 'just now', '3 h ago', 'on 2024-05-06'."""
    words = when(then, now)
    if words == "now":
        return "just now"
    return f"{words} ago" if " " in words else f"on {words}"


def row(summary: ConversationSummary, now: float) -> Content:
    """Return two lines about a conversation, and one with what was found in it."""
    model = clean(summary.model.rpartition("-")[0] or summary.model)
    details = f"{when(summary.updated, now)}, {summary.messages} message{'s' * (summary.messages != 1)}, {model}"
    if summary.profile != "default":
        details += f", profile {clean(summary.profile)}"
    found = f"\n  {' '.join(clean(summary.found).split())}" if summary.found else ""
    return Content.assemble(clean(summary.title) or "untitled", (found, "italic"), (f"\n  {details}", "$text-muted"))


class ConversationsScreen(ModalScreen[ConversationSummary | None]):
    """Ends with the conversation to resume, or None. `deleted` is told the ids that are gone.

    words: what was looked for last.
    """

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "back", priority=True),
        bind("list_down", "move(1)", show=False),
        bind("list_up", "move(-1)", show=False),
        bind("conversations_rename", "rename", priority=True),
        bind("conversations_delete", "delete", priority=True),
    ]

    listed = query_one(OptionList)
    search = query_one("#search", Input)
    title_input = query_one("#title", Input)
    hint = query_one("#hint", Static)

    def __init__(self, journal: Journal, deleted: Callable[[int], object]) -> None:
        super().__init__()
        self._journal = journal
        self._deleted = deleted
        self._found: list[ConversationSummary] = []
        self._asked_to_delete: int | None = None
        self.words = ""

    def compose(self) -> ComposeResult:
        """A search line, the list, and one line for what can be done."""
        with Vertical(id="box") as box:
            box.border_title = "Conversations"
            yield Input(placeholder="search titles and messages", id="search")
            yield ChoiceList(id="list")
            yield Input(id="title")
            yield Static(keymap_of(self.app).fill(HINT), id="hint")

    def on_mount(self) -> None:
        """Show the latest ones."""
        self.search.focus()
        self.find()

    @on(Input.Changed, "#search")
    @work(exclusive=True, group="find")
    async def find(self) -> None:
        """List what contains the words of the search line."""
        words = self.words = self.search.value
        try:
            found = await self._ask(lambda store: store.list(LIMIT, words))
        except StoreError as error:
            self._say(str(error))
            return
        self._list(found)

    def _list(self, found: list[ConversationSummary]) -> None:
        chosen = self._chosen
        now = time.time()
        self._found = found
        self.listed.clear_options()
        self.listed.add_options([Option(row(summary, now), str(summary.id)) for summary in found])
        ids = [summary.id for summary in found]
        if found:
            self.listed.highlighted = ids.index(chosen.id) if chosen and chosen.id in ids else 0
        self._hint(HINT if found else "nothing found")

    @property
    def _chosen(self) -> ConversationSummary | None:
        position = self.listed.highlighted
        return self._found[position] if position is not None and position < len(self._found) else None

    def action_move(self, step: int) -> None:
        """Move through the list without leaving the search line."""
        if step > 0:
            self.listed.action_cursor_down()
        else:
            self.listed.action_cursor_up()

    def action_back(self) -> None:
        """Leave renaming, or the screen."""
        if self.has_class("-renaming"):
            self._end_renaming()
        else:
            self.dismiss(None)

    @on(Input.Submitted, "#search")
    @on(OptionList.OptionSelected)
    def resume(self) -> None:
        """End with the chosen conversation."""
        if self._chosen is not None:
            self.dismiss(self._chosen)

    @on(OptionList.OptionHighlighted)
    def forget_deletion(self) -> None:
        """A second wish to delete deletes only what the first one asked about."""
        if self._asked_to_delete is not None:
            self._asked_to_delete = None
            self._hint(HINT)

    def action_rename(self) -> None:
        """Ask for another title."""
        if (chosen := self._chosen) is not None:
            self.add_class("-renaming")
            self.title_input.value = chosen.title
            self.title_input.focus()
            self._hint("Enter renames   {close} leaves it")

    @on(Input.Submitted, "#title")
    @work(group="change")
    async def rename(self) -> None:
        """Store the title."""
        title, chosen = self.title_input.value, self._chosen
        self._end_renaming()
        if chosen is not None:
            await self._change(lambda store: store.rename(chosen.id, title))

    def _end_renaming(self) -> None:
        self.remove_class("-renaming")
        self.search.focus()
        self._hint(HINT)

    @work(group="change")
    async def action_delete(self) -> None:
        """Delete at the second press."""
        chosen = self._chosen
        if chosen is None or self.has_class("-renaming"):
            return
        if self._asked_to_delete != chosen.id:
            self._asked_to_delete = chosen.id
            self._hint("{conversations_delete} again deletes this conversation for good")
            return
        self._asked_to_delete = None
        if await self._change(lambda store: store.delete(chosen.id)):
            self._deleted(chosen.id)

    async def _change(self, change: Callable[[Conversations], None]) -> bool:
        """Carry out a change and list anew; say whether it was possible."""
        try:
            await self._ask(change)
        except StoreError as error:
            self._say(str(error))
            return False
        self.find()
        return True

    async def _ask(self, question: Callable[[Conversations], Result]) -> Result:
        future: Future[Result] = self._journal.ask(question)
        return await asyncio.wrap_future(future)

    def _hint(self, words: str) -> None:
        self._say(keymap_of(self.app).fill(words))

    def _say(self, words: str) -> None:
        self.hint.update(Content(clean(words)))
