"""A conductor with a scripted engine and a view that remembers: what its tests share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from colibri_tui.conductor import Conductor
from colibri_tui.conversations import Conversations
from colibri_tui.engine_link import (
    EngineDied,
    EngineError,
    EngineReady,
    EngineText,
    EngineTurn,
    LinkState,
)
from colibri_tui.journal import Journal
from colibri_tui.launch import Launch
from colibri_tui.settings import Settings
from engine.board import Board
from engine.events import Turn
from tests.tui.scripted_link import READY, TURN, Link


class Screen:
    """A view that remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[tuple[str, str, tuple]] = []
        self.composer: list[str] = []
        self.draft = ""
        self.running = False
        self.gone = False
        self.ended: list[tuple[str, str]] = []
        self.turns: list[Turn | None] = []
        self.progress = ""
        self.thoughts: list[str] = []

    def show_conversation(self, messages) -> None:
        self.lines = [said.content for said in messages]

    def show_prompt(self, said) -> None:
        self.lines += [said.content, ""]

    def show_reply(self, reply) -> None:
        self.lines.append(reply.content if reply else "")
        self.thoughts = [reply.thought.label()] if reply else []

    def show_reasoning(self, text, label) -> None:
        self.thoughts += [text, label]

    def show_progress(self, text, fraction) -> None:
        self.progress = text

    def show_text(self, text) -> None:
        self.lines[-1] += text

    def end_reply(self, status, note) -> None:
        self.ended.append((status, note))

    def take_back(self) -> None:
        del self.lines[-2:]

    def tell(self, text, severity="information", actions=()) -> None:
        self.told.append((text, severity, actions))

    def put_back(self, text) -> None:
        self.composer.append(text)

    def set_draft(self, text) -> None:
        self.draft = text

    def turn_began(self) -> None:
        self.running = True

    def turn_ended(self, turn) -> None:
        self.running = False
        self.turns.append(turn)

    def model_changed(self) -> None:
        pass

    def state_changed(self) -> None:
        pass


class Play:
    """Everything around one conductor."""

    def __init__(self, tmp_path: Path, store: Path | None = None) -> None:
        """store: of another one, to share its conversations."""
        self.folder = tmp_path / "model"
        self.folder.mkdir()
        (self.folder / "config.json").write_text(json.dumps({"model_type": "fake"}))
        self.link, self.view = Link(), Screen()
        self.journal = Journal(lambda: Conversations(store or tmp_path / "c.db"), pytest.fail)
        self.conductor = Conductor(self.view, self.link, self.journal, Launch(Settings(tmp_path / "s.toml")))

    def hear(self, message) -> None:
        self.conductor.hear(message)

    def ready(self) -> None:
        self.link.state = LinkState.READY
        self.link.board = Board(2, 4)
        self.hear(EngineReady(0, READY))

    def text(self, words: str) -> None:
        self.hear(EngineText(len(self.link.asked), words, 1))

    def done(self, stop: str = "eos", text: str = "x") -> None:
        self.link.state = LinkState.READY
        self.hear(EngineTurn(len(self.link.asked), replace(TURN, stop=stop), text))

    def refuse(self, text: str) -> None:
        self.link.state = LinkState.READY
        self.hear(EngineError(len(self.link.asked), text, fatal=False))

    def die(self) -> None:
        self.link.state = LinkState.DEAD
        self.hear(EngineDied(len(self.link.asked), "killed by signal 9"))

    def stored(self) -> list[tuple[str, str, str]]:
        row = self.conductor.session.conversation
        messages = self.journal.ask(lambda store: store.messages(row.result())).result()
        return [(m.role, m.content, m.status) for m in messages]


async def arrive(stage: Play) -> None:
    """Let the conductor look for what is stored."""
    await stage.conductor.come_back()
