"""The chat without a screen: a line in, text out, nothing is ever drawn twice.

For screen readers, for terminals that can do no more, and for logs. Conversations are the same as those of the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Final, TextIO

from colibri_tui import export
from colibri_tui.actions import BY_NAME, UnknownCommandError, parse
from colibri_tui.attachments import read_attachments
from colibri_tui.chat_settings import setting_text
from colibri_tui.conversations import ConversationSummary, StoredMessage
from colibri_tui.journal import Journal
from colibri_tui.render.clean import StreamCleaner, clean
from colibri_tui.render.units import rate, seconds, tokens
from colibri_tui.session import Prompt, Session
from colibri_tui.turns import ENDED
from engine.errors import EngineError
from engine.events import Loading, Notice, Repin, Token, Turn
from engine.worker import EngineLike

Stopping = Callable[[EngineLike], AbstractContextManager[list[bool]]]
"""Lets Ctrl+C end a turn; see `commands.stopping`."""

SETTINGS: Final = ("system", "temperature", "nucleus", "max_tokens", "seed")
HELP: Final = (
    ("/new", "begin a new conversation"),
    ("/resume", "go on with the last conversation"),
    ("/more", "continue an answer that was cut or stopped"),
    ("/regen", "answer the last prompt anew"),
    ("/stats", "what the last answer took"),
    ("/export", "write the conversation to a file; md or json may follow"),
    *((f"/{name.replace('_', '-')}", BY_NAME[f"/{name.replace('_', '-')}"].help) for name in SETTINGS),
    ("/help", "these commands"),
    ("/quit", "end; so does the end of the input"),
)
CONTINUED: Final = "\\"
"""At the end of a line: the message goes on in the next one."""


class PlainChat:
    """One conversation after the other, with one engine. Everything is written to `out`, a line at a time."""

    def __init__(
        self, engine: EngineLike, journal: Journal, key: str, profile: str, out: TextIO, stopping: Stopping
    ) -> None:
        self._engine, self._journal, self._out, self._stopping = engine, journal, out, stopping
        self._key, self._profile = key, profile
        self._session = Session(journal, key, profile)
        self._last: Turn | None = None

    def run(self, lines: Iterable[str]) -> None:
        """Answer line by line until the input ends or /quit."""
        self.say("Ready. Write a message; /help tells the commands.")
        held: list[str] = []
        for line in lines:
            text = line.rstrip("\r\n")
            if text.endswith(CONTINUED):
                held.append(text[: -len(CONTINUED)])
                continue
            message, held = "\n".join([*held, text]), []
            try:
                if message.strip() and not self._take(message):
                    return
            except EngineError as error:
                self.say(f"{error}.")

    def say(self, text: str) -> None:
        """Write a line of our own."""
        print(clean(text), file=self._out, flush=True)

    def _take(self, text: str) -> bool:
        """Answer a message, or do what a command says; return False to end."""
        name, _, argument = text.strip().partition(" ")
        if name in ("/quit", ":q"):
            return False
        own = {
            "/help": self._help,
            "/new": self._new,
            "/resume": self._resume,
            "/more": self._more,
            ":more": self._more,
            "/regen": self._regenerate,
            "/stats": self._stats,
        }
        if name in own:
            own[name]()
        elif name == "/export":
            self._export(argument.strip() or "md")
        elif name.lstrip("/").replace("-", "_") in SETTINGS and name.startswith("/"):
            self._configure(name.lstrip("/").replace("-", "_"), argument.strip())
        elif self._is_prompt(text):
            self._answer(self._session.prompt(Prompt(text, read_attachments(text))))
        return True

    def _is_prompt(self, text: str) -> bool:
        try:
            command = parse(text)
        except UnknownCommandError as error:
            self.say(f"{str(error)[0].upper()}{str(error)[1:]}.")
            return False
        if command is not None:
            self.say(f"{command[0].slash[0]} needs the screen; /help tells what works here.")
        return command is None

    # Answers

    def _answer(self, messages: list[dict[str, str]], *, continue_final: bool = False) -> None:
        """Let the engine answer, and write its words as they come, whole lines at a time."""
        session, cleaner, line = self._session, StreamCleaner(), ""
        sampling = session.settings.sampling(self._engine.defaults)
        turn: Turn | None = None
        thinking = False
        try:
            ids = self._engine.render(messages, continue_final=continue_final)
            with self._stopping(self._engine):
                for event in self._engine.generate(ids, chat=True, **asdict(sampling)):
                    match event:
                        case Token():
                            if event.reasoning and not thinking:
                                thinking = True
                                self.say("The model is thinking.")
                            session.feed(event.text, event.reasoning, int(bool(event.reasoning)))
                            line += cleaner.feed(event.text)
                            *whole, line = line.split("\n")
                            for part in whole:
                                self.say(part)
                        case Turn():
                            turn = event
                        case Notice(text):
                            self.say(text)
                        case Loading() | Repin():
                            pass
        except EngineError:
            self._end(turn, failed=True)
            raise
        if rest := line + cleaner.finish():
            self.say(rest)
        self._end(turn)

    def _end(self, turn: Turn | None, *, failed: bool = False) -> None:
        session, self._last = self._session, turn
        if not session.has_reply:
            session.withdraw()
            if not failed:
                self.say("There was no answer.")
            return
        status, _ = ENDED["error" if failed or turn is None else turn.stop]
        session.finish(status, "", asdict(turn) if turn is not None else None)
        if status == "stopped":
            self.say("Stopped; /more continues.")
        elif status == "cut":
            self.say("Cut off at the length limit; /more continues.")

    def _more(self) -> None:
        if self._session.can_continue:
            self._answer(self._session.continue_reply(), continue_final=True)
        else:
            self.say("There is no answer to continue.")

    def _regenerate(self) -> None:
        if self._session.can_regenerate:
            self._answer(self._session.regenerate())
        else:
            self.say("There is no answer to regenerate.")

    # Conversations

    def _new(self) -> None:
        self._session = Session(self._journal, self._key, self._profile)
        self.say("A new conversation begins.")

    def _resume(self) -> None:
        found = self._journal.ask(lambda store: store.latest(self._key)).result()
        if found is None:
            self.say("There is no conversation with this model yet.")
            return
        stored = self._journal.ask(lambda store: store.messages(found.id)).result()
        self._session = Session(self._journal, self._key, self._profile)
        unanswered = self._session.load(found.id, stored, found.settings)
        for said in self._session.messages:
            self.say(f"{'You' if said.role == 'user' else 'Model'}: {said.content.rstrip()}")
        self.say(f"Back in “{found.title or 'untitled'}”.")
        if unanswered:
            self.say(f"This was not answered: {unanswered}")

    def _stored(self) -> tuple[ConversationSummary, list[StoredMessage]] | None:
        row = self._session.conversation
        if row is None:
            return None
        summary = self._journal.ask(lambda store: store.get(row.result())).result()
        messages = self._journal.ask(lambda store: store.messages(row.result())).result()
        return (summary, messages) if summary is not None else None

    def _export(self, kind: str) -> None:
        stored = self._stored()
        if stored is None:
            self.say("There is nothing to export yet.")
        elif kind in ("md", "json"):
            form: export.Format = "json" if kind == "json" else "md"
            self.say(f"Exported to {export.write(Path.cwd(), form, *stored)}")
        else:
            self.say(f"There is no format “{kind}”: md and json are.")

    # Figures and settings

    def _configure(self, name: str, text: str) -> None:
        if text:
            self._session.configure(self._session.settings.changed(name, text))
        self.say(setting_text(name, self._session.settings, self._engine.defaults))

    def _stats(self) -> None:
        turn = self._last
        if turn is None:
            self.say("There was no answer yet.")
            return
        hits = f"{100 * turn.hits.rate:.0f} percent of experts from memory"
        self.say(f"{tokens(turn.tokens)}, {rate(turn.tok_s)}, first token after {seconds(turn.ttft_s)}, {hits}.")

    def _help(self) -> None:
        for name, words in HELP:
            self.say(f"{name}: {words[0].lower()}{words[1:]}")
        self.say("A backslash at the end of a line goes on in the next one. @path sends a text file along.")
