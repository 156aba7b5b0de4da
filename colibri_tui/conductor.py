"""What happens when: between a person's wishes, the engine's messages, the conversation and the screen.

The conductor decides; the screen, which it knows as a `View`, draws. Everything runs in the screen's loop. Messages
count only while they belong to the turn that is shown: an answer that was given up may go on for a layer.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from colibri_tui import engine_link as link
from colibri_tui.conversations import INTERRUPTED, Conversations, ConversationSummary
from colibri_tui.database import StoreError
from colibri_tui.engine_link import EngineLink, LinkState
from colibri_tui.journal import Journal, Result
from colibri_tui.launch import Launch
from colibri_tui.model_slot import ModelSlot
from colibri_tui.profiles import check_name
from colibri_tui.session import CUT, DONE, ERROR, STOPPED, EngineMessages, Session
from colibri_tui.view import View
from colibri_tui.widgets.loading import progress_text
from colibri_tui.widgets.status_line import Stage, Status, lossy_options
from engine.errors import EngineError
from engine.events import StopReason, Turn

_ENDED: Final[dict[StopReason, tuple[str, str]]] = {
    "eos": (DONE, ""),
    "length": (CUT, "cut off at the length limit; Alt+M continues"),
    "user": (STOPPED, "stopped; Alt+M continues"),
    "error": (ERROR, ""),
}
STARTING: Final = ("starting the engine", 0, 0)
NO_WORDS: Final = "the model ended its answer without a word"
RESTART: Final = ("restart", "restart")
RESTART_SMALLER: Final = ("restart_smaller", "restart with less memory")
CHOOSE: Final = ("models", "choose a model")
QUIT: Final = ("quit", "quit")


class Conductor:
    """One per application. `model` is the model's place, `session` the conversation, `last_turn` its last figures."""

    def __init__(self, view: View, engine: EngineLink, journal: Journal, launch: Launch) -> None:
        self._view = view
        self._engine = engine
        self._journal = journal
        self.model = ModelSlot(engine, launch)
        self.session = Session(journal, "", launch.profile)
        self.last_turn: Turn | None = None
        self._turn = 0  # the engine's number of the turn whose messages count; 0: none does
        self._draft = ""
        self._arriving: Session | None = None  # waits for a stored conversation
        self._stage = Stage.NO_MODEL
        self._detail = ""
        self._progress = STARTING

    @property
    def status(self) -> Status:
        """What the status line says, but for what the telemetry adds."""
        turn, ready = self.last_turn, self.model.ready
        return Status(
            stage=self._stage,
            detail=self._detail,
            model=self.model.name,
            profile=self.model.profile if self.model.folder else "",
            lossy=lossy_options(self.model.options),
            queued=len(self.session.queue),
            tok_s=turn.tok_s if turn and turn.tokens > 1 else None,
            ttft_s=turn.ttft_s if turn and turn.tokens else None,
            context=ready.context if ready else 0,
        )

    @property
    def answering(self) -> bool:
        """Whether there is an answer to stop."""
        return self.session.running is not None

    @property
    def progress(self) -> tuple[str, int, int] | None:
        """What is being loaded: stage, done, total; None when nothing is."""
        return self._progress if self._engine.state is LinkState.LOADING else None

    # Models and profiles

    def open(self, folder: Path) -> bool:
        """Load a model with a conversation of its own; say whether it was begun. `come_back` finds the last one."""
        model = self.model
        if not self._load(lambda: model.load(folder, model.profile)):
            return False
        self._leave()
        self.session = self._arriving = Session(self._journal, model.key, model.profile)
        self._view.show_conversation([])
        self._view.state_changed()
        return True

    def use_profile(self, name: str) -> None:
        """Restart the engine with another learned history; the conversation stays."""
        model = self.model
        try:
            name = check_name(name)
        except EngineError as error:
            self._view.tell(str(error), "warning")
            return
        model.profile = self.session.profile = name
        if model.folder is not None and self._load(model.reload):
            self._view.tell(f"Profile {name}: the engine restarts with what was learned there.")
        self._view.state_changed()

    def restart(self, *, smaller: bool = False) -> None:
        """Load the same model again, perhaps within less memory."""
        if self.model.folder is None:
            return
        if smaller:
            budget = self.model.shrink()
            self._view.tell(f"The engine restarts with a memory budget of {budget:.1f} GB.")
        self._load(self.model.reload)
        self._view.state_changed()

    def _load(self, load: Callable[[], None]) -> bool:
        """Start the engine; if it cannot be, tell why and return False."""
        self._cut_short()
        try:
            load()
        except EngineError as error:
            self._view.tell(str(error), "error", (CHOOSE,))
            return False
        self.last_turn = None
        self._turn = 0
        self._progress = STARTING
        self._set(Stage.LOADING)
        self._view.model_changed()
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
                self.keep_draft(self._draft)
        self._pump()

    async def _find(self, session: Session, found: ConversationSummary | None) -> None:
        found = found or await self.ask(lambda store: store.latest(session.model))
        number = found.id if found else None
        draft = await self.ask(lambda store: store.get_draft(number))
        stored = await self.ask(lambda store: store.messages(number) if number is not None else [])
        if session is not self.session:
            return  # another model or conversation was chosen meanwhile
        if found is not None:
            unanswered = session.load(found.id, stored)
            draft = "\n\n".join(part for part in (unanswered, draft) if part)
            self._view.show_conversation(session.messages)
            other = "" if found.model == session.model else " It was held with another model."
            self._view.tell(f"Back in “{found.title or 'untitled'}”. Ctrl+N begins a new one.{other}")
        if draft:
            self._view.set_draft(draft)
        self._view.state_changed()

    def new(self) -> None:
        """Begin a new conversation."""
        self._leave()
        self.session = Session(self._journal, self.model.key, self.model.profile)
        self._view.show_conversation([])
        self._view.state_changed()

    async def resume(self, conversation: ConversationSummary) -> None:
        """Leave this conversation for another."""
        self.new()
        await self.come_back(conversation)

    def forget(self, conversation: int) -> None:
        """A conversation was deleted; if it is this one, begin a new one."""
        row = self.session.conversation
        if row is not None and row.done() and row.exception() is None and row.result() == conversation:
            self.new()

    def close(self, draft: str) -> None:
        """The program ends: keep what was said, and what was not sent. A prompt without an answer is found again."""
        self._turn = 0
        if self.session.has_reply:
            self.session.finish(*_ENDED["user"])
        if draft.strip() or self.session.queue:
            self._arriving = None
        self.keep_draft(draft)

    def keep_draft(self, draft: str) -> None:
        """Store what is written in the composer, and what is queued before it: neither is sent yet."""
        self._draft = draft
        unsent = [text for text in (*self.session.queue, draft) if text.strip()]
        if self._arriving is None:  # else what is stored has yet to be read
            self._journal.set_draft(self.session.conversation, "\n\n".join(unsent))

    def _leave(self) -> None:
        """End what is under way before another conversation takes its place."""
        self._take_queue_back()
        self._cut_short()

    def _cut_short(self) -> None:
        """End the running turn now, whatever the engine still does about it."""
        if self.session.running is None:
            return
        self._engine.stop()
        if self.session.has_reply:
            self._end(*_ENDED["user"])
        else:
            self._withdraw()

    async def ask(self, question: Callable[[Conversations], Result]) -> Result:
        """Put a question to the store of conversations. Raises StoreError."""
        answer = await asyncio.wrap_future(self._journal.ask(question))
        if self._view.gone:
            raise asyncio.CancelledError
        return answer

    # Prompts

    def submit(self, text: str) -> None:
        """Send a prompt, or keep it until it can be sent. A dead engine is started again for it."""
        if self.model.folder is None:
            self._view.put_back(text)
            self._view.tell("There is no model yet.", "warning", (CHOOSE,))
            return
        self.session.queue.append(text)
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
        text = self.session.queue.pop(0)
        if self.session.conversation is None:
            self._journal.set_draft(None, "")
        messages = self.session.prompt(text)
        self.keep_draft(self._draft)
        self._view.show_prompt(text)
        self._begin(messages)

    def more(self) -> None:
        """Take up the last answer where it was cut."""
        if not self.session.can_continue:
            self._view.tell("There is no answer to continue.")
        elif self._is_idle():
            reply = self.session.messages[-1]
            messages = self.session.continue_reply()
            self._view.show_conversation(self.session.messages[:-1])
            self._view.show_reply(reply.content)
            self._begin(messages, continue_final=True)

    def regenerate(self) -> None:
        """Answer the last prompt anew."""
        if not self.session.can_regenerate:
            self._view.tell("There is no answer to regenerate.")
        elif self._is_idle():
            messages = self.session.regenerate()
            self._view.show_conversation(self.session.messages)
            self._view.show_reply("")
            self._begin(messages)

    def _is_idle(self) -> bool:
        if self._engine.state is LinkState.READY:
            return True
        self._view.tell(f"Not now: {self._stage.value}.")
        return False

    def _begin(self, messages: EngineMessages, *, continue_final: bool = False) -> None:
        if self.model.telemetry is not None:
            self.model.telemetry.begin_turn()
        sampling = self._engine.defaults
        assert sampling is not None, "a link that is ready has its model's defaults"
        try:
            self._turn = self._engine.chat(messages, sampling, continue_final=continue_final)
        except EngineError as error:  # it died a moment ago, and its last message is on its way
            self._fail(ERROR)
            self._view.tell(str(error), "error")
            return
        self._set(Stage.PROMPT)
        self._view.turn_began()
        self._view.state_changed()

    def stop(self) -> None:
        """Stop the answer; before its first token its prompt comes back. What is queued comes back as well."""
        self._take_queue_back()  # each comes back above the last, so the first one last
        if self.session.running is not None:
            self._engine.stop()
            if self.session.has_reply:
                self._set(Stage.STOPPING)
            else:
                self._withdraw()
        self._view.state_changed()

    def _withdraw(self) -> None:
        """Take the running prompt out of the conversation and give it back."""
        self._turn = 0
        if text := self.session.withdraw():
            self._view.take_back()
            self._view.put_back(text)
        else:
            self._view.show_conversation(self.session.messages)
        self._set(Stage.STOPPING if self._engine.state is LinkState.BUSY else Stage.READY)
        self._view.turn_ended(None)

    def _take_queue_back(self) -> None:
        queue, self.session.queue = self.session.queue, []
        if queue:
            self._view.put_back("\n\n".join(queue))

    def _end(self, status: str, note: str, turn: Turn | None = None) -> None:
        """End the running answer."""
        self._turn = 0
        self.session.finish(status, note, asdict(turn) if turn else None)
        self._view.end_reply(status, note)
        self._view.turn_ended(turn)

    # What the engine says

    def hear(self, message: link.EngineMessage) -> None:
        """Take a message of the engine."""
        if self._view.gone:
            return
        match message:
            case link.EngineLoading():
                self._hear_loading(message)
            case link.EngineReady():
                self._hear_ready(message)
            case link.EnginePrefill():
                self._hear_prefill(message)
            case link.EngineText():
                self._hear_text(message)
            case link.EngineTurn():
                self._hear_turn(message)
            case link.EngineNotice():
                self._view.tell(message.text)
            case link.EngineError(fatal=True):
                self._hear_refusal(message)
            case link.EngineError():
                self._hear_error(message)
            case link.EngineDied():
                self._hear_death(message)

    def _hear_loading(self, message: link.EngineLoading) -> None:
        """Progress before the model is ready."""
        self._progress = (message.stage, message.done, message.total)
        self._set(Stage.LOADING, progress_text(*self._progress))
        self._view.state_changed()

    def _hear_ready(self, message: link.EngineReady) -> None:
        """The model is loaded."""
        self.model.loaded(message.info)
        self._set(Stage.READY)
        self._view.model_changed()
        # What is alive now stays: collections during an answer need not walk through it again and again. Young
        # objects are collected in small numbers: 5 000 take 4 ms, 50 000 take 40, which a key would wait for.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 5, 1000)
        self._pump()
        self._view.state_changed()

    def _hear_prefill(self, message: link.EnginePrefill) -> None:
        """Some of the prompt was read."""
        if message.turn == self._turn and message.total:
            words = f"{message.done}/{message.total}"
            self._set(Stage.PROMPT, words)
            self._view.show_progress(f"reading the prompt {words}", message.done / message.total)
            self._view.state_changed()

    def _hear_text(self, message: link.EngineText) -> None:
        """More of the answer."""
        if message.turn != self._turn:
            return
        self.session.feed(message.text)
        self._view.show_text(message.text)
        if self._stage is Stage.PROMPT:
            self._set(Stage.ANSWERING)
            self._view.state_changed()

    def _hear_turn(self, message: link.EngineTurn) -> None:
        """The turn is over."""
        turn = message.summary
        if message.turn == self._turn:
            self.last_turn = turn
            if turn.stop == "user" and not self.session.has_reply:
                self._withdraw()
            else:
                if not self.session.has_reply:
                    self.session.feed("")
                status, note = _ENDED[turn.stop]
                self._end(status, note if message.text or note else NO_WORDS, turn)
        self._rest()

    def _hear_refusal(self, message: link.EngineError) -> None:
        """The model cannot be loaded."""
        self._set(Stage.REFUSED)
        self._take_queue_back()
        self._view.tell(message.text, "error", (CHOOSE, QUIT))
        self._view.state_changed()

    def _hear_error(self, message: link.EngineError) -> None:
        """The turn cannot be done."""
        if message.turn == self._turn:
            self._fail(ERROR)
        self._view.tell(message.text, "error")
        self._rest()

    def _hear_death(self, message: link.EngineDied) -> None:
        """The engine's process is gone."""
        if self.session.running is not None:
            self._fail(INTERRUPTED)
        self._set(Stage.DIED)
        self._view.tell(message.text, "error", (RESTART, RESTART_SMALLER, QUIT))
        self._view.state_changed()

    def _fail(self, status: str) -> None:
        """End the running turn: the engine could not."""
        if self.session.has_reply:
            self._end(status, "")
        else:
            self._withdraw()

    def _rest(self) -> None:
        """The engine is idle again."""
        self._set(Stage.READY)
        self._pump()
        self._view.state_changed()

    def _set(self, stage: Stage, detail: str = "") -> None:
        self._stage, self._detail = stage, detail
