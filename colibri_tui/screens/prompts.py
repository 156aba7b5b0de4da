"""Looking for something one wrote before: the words at the top, what has them below, the latest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.render.clean import clean
from colibri_tui.widgets.choice_list import ChoiceList

SHOWN: Final = 200
HINT: Final = "{list_choose} takes it   {history}, {list_up}, {list_down} move   {close} closes"
NOTHING: Final = "nothing found   {close} closes"


class PromptsScreen(ModalScreen[str | None]):
    """Ends with the prompt that was chosen, or None. prompts: the newest last."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "dismiss", priority=True),
        bind("list_down", "move(1)", show=False, priority=True),
        bind("history", "move(1)", show=False, priority=True),
        bind("list_up", "move(-1)", show=False, priority=True),
    ]

    listed = query_one(OptionList)
    search = query_one(Input)

    def __init__(self, prompts: Sequence[str]) -> None:
        super().__init__()
        self._prompts = prompts[::-1]
        self._found: list[str] = []

    def compose(self) -> ComposeResult:
        """A search line, the list, and one line for what can be done."""
        with Vertical(id="box") as box:
            box.border_title = "Earlier prompts"
            yield Input(placeholder="words of a prompt")
            yield ChoiceList(id="list")
            yield Static(keymap_of(self.app).fill(HINT), id="hint")

    def on_mount(self) -> None:
        """Show the latest ones."""
        self.search.focus()
        self.find()

    @on(Input.Changed)
    def find(self) -> None:
        """List the prompts that have all words, in any order."""
        words = self.search.value.casefold().split()
        has = (prompt for prompt in self._prompts if all(word in prompt.casefold() for word in words))
        self._found = [prompt for prompt, _ in zip(has, range(SHOWN), strict=False)]
        self.listed.clear_options()
        self.listed.add_options([Option(_row(prompt)) for prompt in self._found])
        self.listed.highlighted = 0 if self._found else None
        self.query_one("#hint", Static).update(keymap_of(self.app).fill(HINT if self._found else NOTHING))

    def action_move(self, step: int) -> None:
        """Move through the list without leaving the search line."""
        if step > 0:
            self.listed.action_cursor_down()
        else:
            self.listed.action_cursor_up()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def choose(self) -> None:
        """End with the chosen prompt."""
        if self.listed.highlighted is not None:
            self.dismiss(self._found[self.listed.highlighted])


def _row(prompt: str) -> Content:
    lines = clean(prompt).strip().splitlines() or [""]
    more = f"  + {len(lines) - 1} line{'s' * (len(lines) > 2)}" if len(lines) > 1 else ""
    return Content.assemble(lines[0], (more, "$text-muted"))
