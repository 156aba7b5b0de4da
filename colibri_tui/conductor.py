"""What a person wishes: models, profiles, conversations, prompts.

The conductor decides; the screen, which it knows as a `View`, draws. Everything runs in the screen's loop. What becomes
of a prompt once it is sent is the business of `turns`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from colibri_tui.attachments import Attachment
from colibri_tui.chat_settings import setting_text
from colibri_tui.conversations import Conversations, ConversationSummary, StoredMessage
from colibri_tui.database import StoreError
from colibri_tui.engine_link import LinkState
from colibri_tui.excerpts import title_of
from colibri_tui.journal import Result
from colibri_tui.machine import Machine
from colibri_tui.session import Prompt, Session
from colibri_tui.turns import CHOOSE, ENDED
from engine.errors import EngineError


class Conductor(Machine):
    """One per application: everything a person can ask for that changes more than the screen."""

    # Models and profiles

    def open(self, folder: Path) -> bool:
        """Load a model with a conversation of its own; say whether it was begun. `come_back` finds the last one."""
        model = self.model
        self._cut_short()
        self._keeper.leave()
        if not self._load(lambda: model.load(folder, model.profile)):
            return False
        self._take_queue_back()
        self._journal.leave()
        self.session = self._arriving = Session(self._journal, model.key, model.profile)
        self._view.show_conversation([])
        self._view.state_changed()
        return True

    # Conversations

    async def come_back(self, conversation: ConversationSummary | None = None) -> None:
        """Show a stored conversation in this session; None: the last one of this model, if there is one."""
        session = self._arriving = self.session
        try:
            await self._find(session, conversation)
        except StoreError as error:
            self._view.tell(str(error), "error")
        finally:
            if self._arriving is session:
                self._arriving = None
                if not self._view.gone:  # else `close` has seen to it
                    self.keep_draft(self._draft)
        self._take_up()
        self._pump()

    async def _find(self, session: Session, found: ConversationSummary | None) -> None:
        wanted = found or await self.ask(lambda store: store.latest(session.model))
        elsewhere, latest = "", wanted.id if wanted else None
        if wanted is not None and not await self.ask(lambda store: store.hold(latest)):
            what = "this is a copy of it" if found else "this is a new conversation"
            elsewhere = f"“{wanted.title or 'untitled'}” is open in another window; {what}."
            wanted = await self._copy(wanted) if found else None
        found = wanted
        if session is not self.session:
            return  # another model or conversation was chosen meanwhile
        number = found.id if found else None
        draft = await self.ask(lambda store: store.get_draft(number))
        stored = await self.ask(lambda store: store.messages(number) if number is not None else [])
        if session is not self.session:
            return  # another model or conversation was chosen meanwhile
        if found is not None:
            unanswered = session.load(found.id, stored, found.settings)
            draft = "\n\n".join(part for part in (unanswered, draft) if part)
            self._view.show_conversation(session.messages)
            other = "" if found.model == session.model else " It was held with another model."
            begin = self.model.launch.keymap.fill("{new} begins a new one")
            here = elsewhere or f"Back in “{found.title or 'untitled'}”. {begin}."
            self._view.tell(f"{here}{other}")
        elif elsewhere:
            self._view.tell(elsewhere)
        if draft:
            self._view.set_draft(draft)
        self._view.state_changed()

    async def _copy(self, conversation: ConversationSummary) -> ConversationSummary | None:
        number = await self.ask(lambda store: store.branch(conversation.id))
        await self.ask(lambda store: store.hold(number))
        return await self.ask(lambda store: store.get(number))

    def new(self) -> None:
        """Begin a new conversation."""
        self._leave()
        self._journal.leave()
        self.session = Session(self._journal, self.model.key, self.model.profile)
        self._view.show_conversation([])
        self._view.state_changed()

    def reset(self) -> None:
        """Begin a new conversation; what the engine knows of this one, also on disk, is wiped."""
        self._cut_short()
        row = self.session.conversation
        if row is not None and row.number is not None:
            self._keeper.forget(row.number)
        self.new()

    async def branch(self) -> None:
        """Go on in a copy of this conversation; the one it was copied from stays as it is."""
        row = self.session.conversation
        if row is None or not self.session.messages:
            self._view.tell("There is nothing to branch from yet.")
            return
        self._cut_short()
        try:
            number = await self.ask(lambda store: store.branch(row.result()))
            copy = await self.ask(lambda store: store.get(number))
        except StoreError as error:
            self._view.tell(str(error), "error")
            return
        if copy is not None:
            await self.resume(copy)

    async def stored(self) -> tuple[ConversationSummary, list[StoredMessage]] | None:
        """Return this conversation as it is stored, with everything said so far; None if nothing was."""
        row = self.session.conversation
        if row is None:
            return None
        try:
            summary = await self.ask(lambda store: store.get(row.result()))
            messages = await self.ask(lambda store: store.messages(row.result()))
        except StoreError as error:
            self._view.tell(str(error), "error")
            return None
        return (summary, messages) if summary is not None else None

    async def rename(self, title: str) -> None:
        """Give this conversation another title."""
        row = self.session.conversation
        if row is None:
            self._view.tell("A conversation can be renamed once something was said in it.")
            return
        try:
            await self.ask(lambda store: store.rename(row.result(), title))
        except StoreError as error:
            self._view.tell(str(error), "error")
        else:
            self._view.tell(f"This conversation is “{title_of(title)}” now.")

    async def delete(self) -> None:
        """Delete this conversation for good, and begin a new one."""
        row = self.session.conversation
        self.reset()
        if row is None:
            return
        try:
            await self.ask(lambda store: store.delete(row.result()))
        except StoreError as error:
            self._view.tell(str(error), "error")

    def count(self, number: int, text: str) -> None:
        """Ask the engine how many tokens a text has; see `EngineLink.count`."""
        self._engine.count(number, text)

    def draw_curve(self) -> bool:
        """Ask the engine what more memory would do; say whether there is one to ask."""
        return self._engine.draw_curve()

    def configure(self, name: str, text: str) -> None:
        """Change what holds for this conversation's next answers, and tell what does now."""
        session = self.session
        if text:
            try:
                session.configure(session.settings.changed(name, text))
            except EngineError as error:
                self._view.tell(f"{str(error)[0].upper()}{str(error)[1:]}.", "warning")
                return
            self._view.state_changed()
        self._view.tell(setting_text(name, session.settings, self._engine.defaults))

    async def resume(self, conversation: ConversationSummary) -> None:
        """Leave this conversation for another."""
        self.new()
        await self.come_back(conversation)

    def forget(self, conversation: int) -> None:
        """A conversation was deleted; if it is this one, begin a new one."""
        self._keeper.forget(conversation)
        row = self.session.conversation
        if row is not None and row.number == conversation:
            self.new()

    def close(self, draft: str) -> None:
        """The program ends: keep what was said, and what was not sent. A prompt without an answer is found again."""
        self._turn = 0
        if self.session.has_reply:
            self.session.finish(*ENDED["user"])
        if draft.strip() or self.session.queue:
            self._arriving = None
        self.keep_draft(draft)
        self._keeper.leave()

    def keep_draft(self, draft: str) -> None:
        """Store what is written in the composer, and what is queued before it: neither is sent yet."""
        self._draft = draft
        unsent = [text for text in (*(prompt.text for prompt in self.session.queue), draft) if text.strip()]
        if self._arriving is None:  # else what is stored has yet to be read
            self._journal.set_draft(self.session.conversation, "\n\n".join(unsent))

    def _leave(self) -> None:
        """End what is under way before another conversation takes its place."""
        self._take_queue_back()
        self._cut_short()
        self._keeper.leave()

    async def ask(self, question: Callable[[Conversations], Result]) -> Result:
        """Put a question to the store of conversations. Raises StoreError."""
        answer = await asyncio.wrap_future(self._journal.ask(question))
        if self._view.gone:
            raise asyncio.CancelledError
        return answer

    # Prompts

    def submit(self, text: str, files: tuple[Attachment, ...] = (), replaces: int | None = None) -> None:
        """Send a prompt, or keep it until it can be sent. A dead engine is started again for it.

        replaces: see `Prompt`; an answer under way is stopped for it.
        """
        if self.model.folder is None:
            self._view.put_back(text)
            self._view.tell("There is no model yet.", "warning", (CHOOSE,))
            return
        if replaces is not None and self.session.running is not None:
            self._engine.stop()
        self.session.queue.append(Prompt(text, files, replaces))
        self.keep_draft("")
        if self._engine.state in (LinkState.DEAD, LinkState.STOPPED):
            self.restart()
        self._pump()
        self._view.state_changed()

    def _pump(self) -> None:
        """Send what waits, if the engine can take it."""
        idle = self._engine.state is LinkState.READY and self.session.running is None
        if not idle or self._arriving is not None or not self.session.queue:
            return
        prompt = self.session.queue.pop(0)
        if self.session.conversation is None:
            self._journal.set_draft(None, "")
        before = len(self.session.messages)
        messages = self.session.prompt(prompt)
        self.keep_draft(self._draft)
        if len(self.session.messages) <= before:
            self._view.show_conversation(self.session.messages[:-1])
        self._view.show_prompt(self.session.messages[-1])
        self._begin(messages)

    def more(self) -> None:
        """Take up the last answer where it was cut."""
        if not self.session.can_continue:
            self._view.tell("There is no answer to continue.")
        elif self._is_idle():
            reply = self.session.messages[-1]
            messages = self.session.continue_reply()
            self._view.show_conversation(self.session.messages[:-1])
            self._view.show_reply(reply)
            self._begin(messages, continue_final=True)

    def regenerate(self) -> None:
        """Answer the last prompt anew."""
        if not self.session.can_regenerate:
            self._view.tell("There is no answer to regenerate.")
        elif self._is_idle():
            messages = self.session.regenerate()
            self._view.show_conversation(self.session.messages)
            self._view.show_reply(None)
            self._begin(messages)
