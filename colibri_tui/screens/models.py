"""Choosing a model: the demo, those that are installed, or any folder."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.models import demo_folder, disk_use, is_model, list_models, resolve_model
from colibri_tui.render.clean import clean
from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.units import size
from colibri_tui.widgets.loading import Loading
from engine.errors import EngineError

HINT: Final = "Enter opens   Tab to the folder line   Esc closes"
BUILDING: Final = "The demo is being built. Esc gives up"
PROGRESS_SECONDS: Final = 0.1


class _GivenUpError(Exception):
    """Unwinds the building of the demo."""


def demo_words() -> Content:
    """Return two lines about the demo: what it is, from where, under which licence, and how large."""
    from colibri_tui.demo import DISK_BYTES, DOWNLOAD_BYTES, LICENCE, SOURCE

    folder = demo_folder()
    if is_model(folder):
        details = f"ready, {size(disk_use(folder))} on disk"
    else:
        details = f"downloads {size(DOWNLOAD_BYTES)}, takes {size(DISK_BYTES)} on disk"
    return Content.assemble(
        "demo, a small model that shows everything\n", (f"  {SOURCE}, {LICENCE}; {details}", "$text-muted")
    )


def model_words(folder: Path) -> Content:
    """Return two lines about an installed model."""
    return Content.assemble(
        clean(folder.name), "\n", (f"  {size(disk_use(folder))} in {clean(str(folder.parent))}", "$text-muted")
    )


def look() -> tuple[list[tuple[Path, Content]], str]:
    """Return the models there are, each with its words, the demo first; and what kept others from being found."""
    found = [(demo_folder(), demo_words())]
    try:
        found += [(folder, model_words(folder)) for folder in list_models() if folder != demo_folder()]
    except EngineError as error:
        return found, str(error)
    return found, ""


class ModelsScreen(ModalScreen[Path | None]):
    """Ends with a folder that holds a model, or None. `build`: the demo's folder, to be built at once."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Close", priority=True)]

    listed = query_one(OptionList)
    typed = query_one(Input)
    progress = query_one(Loading)
    hint = query_one("#hint", Static)

    class Progressed(Message):
        """The demo has come further."""

        def __init__(self, stage: str, done: int, total: int) -> None:
            super().__init__()
            self.stage, self.done, self.total = stage, done, total

    class Built(Message):
        """The demo is there, or `error` says why not."""

        def __init__(self, error: str) -> None:
            super().__init__()
            self.error = error

    def __init__(self, glyphs: Glyphs, build: Path | None = None) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._build_at_once = build
        self._folders: list[Path] = []
        self._give_up = threading.Event()
        self._building = False

    def compose(self) -> ComposeResult:
        """The list, a line for any other folder, and what goes on."""
        with Vertical(id="box") as box:
            box.border_title = "Models"
            yield OptionList(id="list")
            yield Input(placeholder="or type the folder of a model", id="folder")
            yield Loading(self._glyphs)
            yield Static(HINT, id="hint")

    def on_mount(self) -> None:
        """Look for models."""
        self.listed.focus()
        self._list()
        if self._build_at_once is not None:
            self._choose(self._build_at_once)

    @work(exclusive=True, group="list")
    async def _list(self) -> None:
        found, problem = await asyncio.to_thread(look)
        self._folders = [folder for folder, _ in found]
        self.listed.clear_options()
        self.listed.add_options([Option(words) for _, words in found])
        self.listed.highlighted = 0
        if problem:
            self._say(problem)

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        self._choose(self._folders[message.option_index])

    @on(Input.Submitted)
    def _submitted(self) -> None:
        try:
            self._choose(resolve_model(self.typed.value.strip()))
        except EngineError as error:
            self._say(str(error))

    def _choose(self, folder: Path) -> None:
        if self._building:
            return
        if is_model(folder):
            self.dismiss(folder)
        elif folder == demo_folder():
            self._building = True
            self._say(BUILDING)
            self._build(folder)
        else:
            self._say(f"{folder}: no config.json here any more")

    def action_back(self) -> None:
        """Give up building, or leave."""
        if self._building:
            self._give_up.set()
        else:
            self.dismiss(None)

    @work(thread=True, group="build")
    def _build(self, folder: Path) -> None:
        from colibri_tui.demo import build_demo

        due = 0.0

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal due
            if self._give_up.is_set():
                raise _GivenUpError
            if done == total or time.monotonic() >= due:
                due = time.monotonic() + PROGRESS_SECONDS
                self.post_message(self.Progressed(stage, done, total))

        try:
            build_demo(folder, progress)
        except EngineError as error:
            self.post_message(self.Built(str(error)))
        except _GivenUpError:
            self.post_message(self.Built("given up; what was downloaded so far is gone"))
        else:
            self.post_message(self.Built(""))

    @on(Progressed)
    def _progressed(self, message: Progressed) -> None:
        self.progress.show(message.stage, message.done, message.total)

    @on(Built)
    def _built(self, message: Built) -> None:
        self._building = False
        self._give_up.clear()
        self.progress.hide()
        if message.error:
            self._say(message.error)
        else:
            self.dismiss(demo_folder())

    def on_unmount(self) -> None:
        """Nobody waits for the demo any more."""
        self._give_up.set()

    def _say(self, words: str) -> None:
        self.hint.update(Content(clean(words)))
