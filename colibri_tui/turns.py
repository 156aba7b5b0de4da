"""The turn under way: begun by the conductor, moved on by what the engine says, ended by either.

Messages count only while they belong to the turn that is shown: an answer that was given up may go on for a layer.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Final

from colibri_tui import engine_link as link
from colibri_tui import paths
from colibri_tui.conversations import INTERRUPTED
from colibri_tui.engine_link import EngineLink, LinkState
from colibri_tui.journal import Journal
from colibri_tui.keeper import Keeper
from colibri_tui.launch import Launch
from colibri_tui.model_slot import ModelSlot
from colibri_tui.session import CUT, DONE, ERROR, STOPPED, EngineMessages, Session
from colibri_tui.view import View
from colibri_tui.widgets.status_line import Stage, Status, lossy_options
from engine.errors import EngineError
from engine.events import StopReason, Turn

ENDED: Final[dict[StopReason, tuple[str, str]]] = {
    "eos": (DONE, ""),
    "length": (CUT, "cut off at the length limit"),
    "user": (STOPPED, "stopped"),
    "error": (ERROR, ""),
}
STARTING: Final = ("starting the engine", 0, 0)
NO_WORDS: Final = "the model ended its answer without a word"
NO_ANSWER: Final = "the model ended after its reasoning, without an answer"
RESTART: Final = ("restart", "restart")
RESTART_SMALLER: Final = ("restart_smaller", "restart with less memory")
CHOOSE: Final = ("models", "choose a model")
QUIT: Final = ("quit", "quit")


class Turns(ABC):
    """One model, one conversation, at most one turn.

    model: the model's place. session: the conversation. last_turn: the figures of the last turn.
    draft_tokens: tokens of what is being written.
    """

    def __init__(self, view: View, engine: EngineLink, journal: Journal, launch: Launch) -> None:
        self._view = view
        self._engine = engine
        self._journal = journal
        self.model = ModelSlot(engine, launch)
        self._keeper = Keeper(engine, paths.kept_dir(), int(launch.settings.keep_state * 1e9), view.tell)
        self.session = Session(journal, "", launch.profile)
        self.last_turn: Turn | None = None
        self.draft_tokens = 0
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
            chosen=self.session.settings.words,
            draft=self.draft_tokens,
            queued=len(self.session.queue),
            tok_s=turn.tok_s if turn and turn.tokens > 1 else None,
            ttft_s=turn.ttft_s if turn and turn.tokens else None,
            context_used=self.session.tokens,
            context_held=self._keeper.holds(self.model.key, self.session.conversation),
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

    @abstractmethod
    def _pump(self) -> None:
        """Send what waits, if the engine can take it."""

    # From begin to end

    def _begin(self, messages: EngineMessages, *, continue_final: bool = False) -> None:
        if self.model.telemetry is not None:
            self.model.telemetry.begin_turn()
        sampling = self._engine.defaults
        assert sampling is not None, "a link that is ready has its model's defaults"
        try:
            sampling = self.session.settings.sampling(sampling)
            self._turn = self._engine.chat(messages, sampling, continue_final=continue_final)
            if self.session.conversation is not None:
                self._keeper.began(self.model.key, self.session.conversation)
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
        running = self.session.running
        text = self.session.withdraw()
        if running is not None and running.replaces:
            self._view.show_conversation(self.session.messages)
        else:
            self._view.take_back()
        if text:
            self._view.put_back(text)
        self._set(Stage.STOPPING if self._engine.state is LinkState.BUSY else Stage.READY)
        self._view.turn_ended(None)

    def _take_queue_back(self) -> None:
        queue, self.session.queue = self.session.queue, []
        if queue:
            self._view.put_back("\n\n".join(prompt.text for prompt in queue))

    def _end(self, status: str, note: str, turn: Turn | None = None) -> None:
        """End the running answer."""
        self._turn = 0
        reply = self.session.finish(status, note, asdict(turn) if turn else None)
        if reply.thought.text.strip():
            self._view.show_reasoning("", reply.thought.label())
        self._view.end_reply(status, note)
        self._view.turn_ended(turn)

    def _cut_short(self) -> None:
        """End the running turn now, whatever the engine still does about it."""
        if self.session.running is None:
            return
        self._engine.stop()
        if self.session.has_reply:
            self._end(*ENDED["user"])
        else:
            self._withdraw()

    def _take_up(self) -> None:
        """Let the engine take up this conversation where it was left, if that was kept."""
        row = self.session.conversation
        if self._arriving is None and row is not None and self.session.messages:
            self._keeper.take_up(self.model.key, row)

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
            case link.EngineState():
                self._keeper.heard(message.state)
                self._hear_rest()
            case link.EngineHistory():
                learned = f"{message.selections:,} choices of experts" if message.selections else "nothing yet"
                self._view.tell(f"Learned there so far: {learned}.")
                self._hear_rest()
            case link.EngineError(fatal=True):
                self._hear_refusal(message)
            case link.EngineError():
                self._hear_error(message)
            case link.EngineDied():
                self._hear_death(message)

    def _hear_rest(self) -> None:
        """What the board shows has changed between turns."""
        if self.session.running is None:
            self._view.model_changed()
            self._view.state_changed()

    def _hear_loading(self, message: link.EngineLoading) -> None:
        """Progress before the model is ready."""
        self._progress = (message.stage, message.done, message.total)
        self._set(Stage.LOADING)
        self._view.state_changed()

    def _hear_ready(self, message: link.EngineReady) -> None:
        """The model is loaded."""
        self.model.loaded(message.info)
        self._set(Stage.READY)
        self._view.model_changed()
        # What is alive now stays: collections during an answer need not walk through it again and again. Young
        # objects are collected in small numbers: 2 000 take 1.5 ms and 10 000 take 6, which a key waits for.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        gc.set_threshold(2_000, 5, 1000)
        self._take_up()
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
        self.session.feed(message.text, message.reasoning, message.before)
        thought = self.session.thought
        if thought.text.strip():
            self._view.show_reasoning(message.reasoning, thought.label(growing=self.session.thinking))
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
                status, note = ENDED[turn.stop]
                silent = NO_ANSWER if self.session.thought.text.strip() else NO_WORDS
                self._end(status, note if message.text or note else silent, turn)
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
