"""The application as a person runs it, with the fake engine in a process of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widget import Widget

from colibri_tui.app import ColibriApp
from colibri_tui.engine_link import EngineReady, LinkState
from colibri_tui.launch import Launch
from colibri_tui.screens.chat import ChatScreen
from colibri_tui.settings import Settings
from colibri_tui.widgets.message_view import MessageView
from colibri_tui.widgets.status_line import Stage
from tests.fake_engine import FACTORY, write_model
from tests.tui.boards import lived_in
from tests.tui.scripted_link import READY, Link

PATIENCE_S = 15.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything the program keeps lies in the test's own folder; the terminal is a local one with colours."""
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("colibri_tui.screens.models.forecasts", lambda stop: (said for said in ()))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., ColibriApp]:
    """Return a function that makes an application on a fake model; keywords are its script."""

    def make(*, model: bool = True, profile: str = "default", flags: dict[str, Any] | None = None, **script: Any):
        folder = write_model(tmp_path / "fake-moe", **script) if model else None
        settings = Settings(tmp_path / "settings.toml")
        return ColibriApp(Launch(settings, profile, folder, flags or {}, FACTORY))

    return make


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ColibriApp]:
    """Return a function that makes an application whose engine is a script: no process, no waiting.

    `load` lets the model be ready. The link is `chat(app)._engine`.
    """
    monkeypatch.setattr("colibri_tui.screens.chat.EngineLink", lambda target, factory: Link())

    def make(*, model: bool = True, settings: Settings | None = None) -> ColibriApp:
        folder = write_model(tmp_path / "fake-moe") if model else None
        return ColibriApp(Launch(settings or Settings(tmp_path / "settings.toml"), "default", folder))

    return make


def load(app: ColibriApp) -> None:
    """Let the scripted engine be ready, with a board that was lived in."""
    screen = chat(app)
    screen._engine.board = lived_in(8, 16)
    screen._engine.state = LinkState.READY
    screen.conductor.hear(
        EngineReady(0, replace(READY, layers=8, experts=16, moe_layers=tuple(range(1, 8)), context=4096))
    )


def on_screen(app: ColibriApp) -> str:
    """Everything that is drawn, a line a row."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def seen(app: ColibriApp, selector: str) -> bool:
    """Whether a widget of the chat has a place on the screen."""
    widget = chat(app).query_one(selector)
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))


async def until(predicate: Callable[[], object], what: str = "") -> None:
    """Wait for a condition, not for a time."""
    end = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < end, f"waited in vain for {what or predicate}"
        await asyncio.sleep(0.01)


def chat(app: ColibriApp) -> ChatScreen:
    """The screen under everything."""
    screen = app.screen_stack[0]
    assert isinstance(screen, ChatScreen)
    return screen


def stage(app: ColibriApp) -> Stage:
    """What the status line says is going on."""
    return chat(app).conductor.status.stage


def said(app: ColibriApp) -> list[str]:
    """All messages in the transcript, notices included."""
    return [view.source for view in chat(app).transcript.query(MessageView)]


async def ready(app: ColibriApp) -> None:
    """Wait until the model is loaded and nothing runs."""
    await until(lambda: stage(app) is Stage.READY and not chat(app).conductor.answering, "the model to be ready")


async def settled(app: ColibriApp) -> None:
    """Wait until every pane shows the answer that has ended."""
    await until(lambda: not chat(app)._unsettled, "the panes")


async def send(pilot: Any, text: str) -> None:
    """Write a message and send it."""
    chat(pilot.app).composer.draft = text
    await pilot.press("enter")
    await pilot.pause()
