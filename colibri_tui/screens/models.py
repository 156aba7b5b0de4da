"""Choosing a model: the demo, those on this machine, any folder, or one from a hub."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.fetching import StoppedError, fetch, forecasts, is_repository
from colibri_tui.inventory import installed
from colibri_tui.models import demo_folder, is_model, resolve_model
from colibri_tui.pace import Pace
from colibri_tui.render.clean import clean
from colibri_tui.render.glyphs import Glyphs
from colibri_tui.screens.model_list import Entry, look, model_words
from colibri_tui.widgets.choice_list import ChoiceList
from colibri_tui.widgets.loading import Loading
from engine.errors import EngineError

HINT: Final = "{list_choose} opens or gets   Tab to the line below   {close} closes"
BUILDING: Final = "The demo is being built. {close} gives up"
GETTING: Final = "in 4 bits. {close} stops; choose it again to go on from there"
STOPPED: Final = "Stopped. Choose it again to go on from there"
PROGRESS_SECONDS: Final = 0.1


class _GivenUpError(Exception):
    """Unwinds the building of the demo, or a download."""


class ModelsScreen(ModalScreen[Path | None]):
    """Ends with a folder that holds a model, or None. `build`: the demo's folder, to be built at once."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [bind("close", "back", priority=True)]

    listed = query_one(OptionList)
    typed = query_one(Input)
    progress = query_one(Loading)
    hint = query_one("#hint", Static)

    class Progressed(Message):
        """What is being got has come further."""

        def __init__(self, stage: str, done: int, total: int) -> None:
            super().__init__()
            self.stage, self.done, self.total = stage, done, total

    class Got(Message):
        """The model is there, or `error` says why not."""

        def __init__(self, folder: Path | None, error: str = "") -> None:
            super().__init__()
            self.folder, self.error = folder, error

    class Forecast(Message):
        """What a model that is here will do."""

        def __init__(self, said: dict[str, Any]) -> None:
            super().__init__()
            self.said = said

    def __init__(self, glyphs: Glyphs, build: Path | None = None) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._build_at_once = build
        self._entries: list[Entry] = []
        self._give_up = threading.Event()
        self._left = threading.Event()
        self._busy = False
        self._pace = Pace()
        self._due = 0.0

    def compose(self) -> ComposeResult:
        """The list, a line for any other folder, and what goes on."""
        with Vertical(id="box") as box:
            box.border_title = "Models"
            yield ChoiceList(id="list")
            yield Input(placeholder="or type a model's folder, or OWNER/NAME to get one from a hub", id="folder")
            yield Loading(self._glyphs)
            yield Static(keymap_of(self.app).fill(HINT), id="hint")

    def on_mount(self) -> None:
        """Look for models."""
        self.listed.focus()
        self._list()
        if self._build_at_once is not None:
            self._choose(self._build_at_once)

    @work(exclusive=True, group="list")
    async def _list(self) -> None:
        self._entries, problem = await asyncio.to_thread(look)
        self.listed.clear_options()
        self.listed.add_options([Option(entry.words) for entry in self._entries])
        self.listed.highlighted = 0
        if problem:
            self._say(problem)
        self._forecast()

    @work(thread=True, group="forecast")
    def _forecast(self) -> None:
        """Ask what each model will do; lines are complete without it."""
        try:
            for said in forecasts(self._left):
                self.post_message(self.Forecast(said))
        except (EngineError, StoppedError):
            return

    @on(Forecast)
    async def _forecast_told(self, message: Forecast) -> None:
        name = message.said.get("name")
        for one in await asyncio.to_thread(installed):
            for index, entry in enumerate(self._entries):
                if one.name == entry.name == name and entry.folder != demo_folder():
                    self.listed.replace_option_prompt_at_index(index, model_words(one, message.said))

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        entry = self._entries[message.option_index]
        if entry.folder is not None:
            self._choose(entry.folder)
        else:
            self._get(entry.repo)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        text = self.typed.value.strip()
        try:
            self._choose(resolve_model(text))
        except EngineError as error:
            if is_repository(text):
                self._get(text)
            else:
                self._say(str(error))

    def _choose(self, folder: Path) -> None:
        if self._busy:
            return
        if is_model(folder):
            self.dismiss(folder)
        elif folder == demo_folder():
            self._begin(keymap_of(self.app).fill(BUILDING), self._build_demo)
        else:
            self._say(f"{folder}: no config.json here any more")

    def _get(self, repo: str) -> None:
        if not self._busy:
            self._begin(
                f"Getting {repo}, {keymap_of(self.app).fill(GETTING)}",
                lambda: fetch(repo, self._progress, self._give_up),
            )

    def _begin(self, words: str, work: Callable[[], Path]) -> None:
        self._busy = True
        self._say(words)
        self._run(work)

    def action_back(self) -> None:
        """Give up what is being got, or leave."""
        if self._busy:
            self._give_up.set()
        else:
            self.dismiss(None)

    def _build_demo(self) -> Path:
        from colibri_tui.demo import build_demo

        try:
            build_demo(demo_folder(), self._progress)
        except _GivenUpError:
            raise EngineError("given up; what was downloaded so far is gone") from None
        return demo_folder()

    def _progress(self, stage: str, done: int, total: int) -> None:
        """Hear of progress, on the thread that works."""
        if self._give_up.is_set():
            raise _GivenUpError
        if done == total or time.monotonic() >= self._due:
            self._due = time.monotonic() + PROGRESS_SECONDS
            self.post_message(self.Progressed(stage, done, total))

    @work(thread=True, group="get")
    def _run(self, work: Callable[[], Path]) -> None:
        self._due = 0.0
        try:
            self.post_message(self.Got(work()))
        except EngineError as error:
            self.post_message(self.Got(None, str(error)))
        except (StoppedError, _GivenUpError):
            self.post_message(self.Got(None, STOPPED))

    @on(Progressed)
    def _progressed(self, message: Progressed) -> None:
        rest = self._pace.told(message.stage, message.done, message.total).partition(", ")[2]
        self.progress.show(message.stage, message.done, message.total, rest)

    @on(Got)
    def _got(self, message: Got) -> None:
        self._busy = False
        self._give_up.clear()
        self.progress.hide()
        if message.folder is None:
            self._say(message.error)
        else:
            self.dismiss(message.folder)

    def on_unmount(self) -> None:
        """Nobody waits any more."""
        self._give_up.set()
        self._left.set()

    def _say(self, words: str) -> None:
        self.hint.update(Content(clean(words)))
