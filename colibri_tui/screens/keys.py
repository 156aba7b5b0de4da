"""What every key does, and a way to give it another one: it is pressed, not spelled."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from colibri_tui.bindings import bind, keymap_of
from colibri_tui.key_names import NONE, key_name
from colibri_tui.key_table import KEY, KEYS, PLACES
from colibri_tui.keymap import KeyMistakeError, default_keys, holder, parse_pressed, read_keymap
from colibri_tui.render.clean import clean
from colibri_tui.render.wrap import shorten
from colibri_tui.settings import Settings, read_settings
from colibri_tui.settings_file import change_setting
from colibri_tui.widgets.choice_list import ChoiceList
from colibri_tui.widgets.suggestions import pad
from engine.errors import EngineError

HINT: Final = "{list_choose} changes   {settings_add_key} adds a key   {settings_reset} takes it back   {close} closes"
PRESS: Final = "Press the new key now. Esc leaves it as it was"
NAME, SAID = 33, 26


class KeysScreen(ModalScreen[Settings]):
    """Ends with the settings as they are then; new keys hold from there on. Every change is written at once."""

    CSS_PATH = Path(__file__).with_name("settings.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "close", priority=True),
        bind("settings_reset", "reset"),
        bind("settings_add_key", "add"),
    ]

    listed = query_one(OptionList)
    about = query_one("#about", Static)
    hint = query_one("#hint", Static)

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._keymap = read_keymap(settings.keys)
        self._beside: tuple[str, ...] | None = None  # the keys that stay when another is pressed; None: none is awaited
        self._wanted = ""  # a key of something else that was pressed: once more, and it changes hands

    def compose(self) -> ComposeResult:
        """The list, what there is to know about the marked key, and what can be done."""
        with Vertical(id="box") as box:
            box.border_title = "Keys"
            box.border_subtitle = clean(str(self._settings.path))
            yield ChoiceList(id="list")
            yield Static(id="about")
            yield Static(id="hint")

    def on_mount(self) -> None:
        """Show all of them, and what is wrong in the file."""
        keymap = keymap_of(self.app)
        for name, place in PLACES.items():
            self.listed.add_option(Option(Content.styled(keymap.fill(place.title), "bold $accent"), disabled=True))
            self.listed.add_options([Option(key.id, id=key.id) for key in KEYS if key.place == name])
        self.listed.focus()
        self.listed.highlighted = 1
        self._rest()
        self._explain(" ".join(self._keymap.problems))

    def on_resize(self) -> None:
        """What fits beside a key depends on the width."""
        self.call_after_refresh(self._draw, [key.id for key in KEYS])

    def _draw(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.listed.replace_option_prompt(id, self._row(id))

    def _row(self, id: str) -> Content:
        said = ", ".join(map(key_name, self._keymap.keys(id))) or "-"
        changed = id in self._keymap.own
        room = self.listed.size.width - NAME - SAID - 8
        return Content.assemble(
            f"  {pad(id, NAME)}",
            (f" {pad(shorten(said, SAID), SAID)}", "bold $accent" if changed else "bold"),
            (f" {shorten(KEY[id].help, room)}" if room >= 12 else "", "$text-muted"),
        )

    @property
    def _marked(self) -> str:
        option = self.listed.highlighted_option
        return option.id if option is not None and option.id else KEYS[0].id

    @on(OptionList.OptionHighlighted)
    def _follow(self) -> None:
        self._explain()

    def _explain(self, said: str = "") -> None:
        """Tell all there is to know about the marked key, after what has just happened."""
        key = KEY[self._marked]
        before = ", ".join(map(key_name, default_keys(key.id))) or "none"
        default = f" It was {before}." if key.id in self._keymap.own else ""
        name = (f'  [keys] {key.id} = "..."', "$text-muted")
        self.about.update(
            Content.assemble((f"{clean(said)}  " if said else "", "bold $warning"), f"{key.help}.{default}", name)
        )

    def _rest(self) -> None:
        """Await no key."""
        self._beside, self._wanted = None, ""
        self.hint.update(Content(keymap_of(self.app).fill(HINT)))

    # Changing

    @on(OptionList.OptionSelected)
    def _change(self) -> None:
        self._await(())

    def action_add(self) -> None:
        """Await one more key."""
        self._await(self._keymap.keys(self._marked))

    def _await(self, beside: tuple[str, ...]) -> None:
        self._beside, self._wanted = beside, ""
        self.hint.update(Content.styled(PRESS, "bold $accent"))

    def take_key(self, key: str) -> bool:
        """Hear a key before anybody else does; say whether it was awaited."""
        if self._beside is None:
            return False
        if key == "escape":
            self._rest()
            self._explain()
            return True
        id = self._marked
        try:
            pressed = parse_pressed(id, key)
        except KeyMistakeError as error:
            self._explain(f"{error}.")
            return True
        keys = tuple(dict.fromkeys((*self._beside, pressed)))
        other = holder(id, (pressed,), self._keymap)
        if other is not None and self._wanted != pressed:
            self._wanted = pressed
            self._explain(f"{key_name(pressed)} is the key of {other[1]}. Press it again to take it from there.")
            return True
        self._rest()
        if other is None:
            self._store({id: keys})
        else:
            self._give(pressed, id, keys)
        return True

    def _give(self, pressed: str, id: str, keys: tuple[str, ...]) -> None:
        """Take a key away from everything that has it where this holds."""
        changes = {}
        keymap = self._keymap
        while (other := holder(id, (pressed,), keymap)) is not None:
            changes[other[1]] = tuple(key for key in keymap.keys(other[1]) if key != pressed)
            keymap = keymap.changed(changes)
        self._store({**changes, id: keys})

    def action_reset(self) -> None:
        """Give the marked one its own key back."""
        id = self._marked
        other = holder(id, default_keys(id), self._keymap.changed({id: default_keys(id)}))
        if other is not None:
            self._explain(f"{key_name(other[0])} is the key of {other[1]} now: take that one back first.")
        else:
            self._store({id: default_keys(id)})

    def action_close(self) -> None:
        """Close."""
        self.dismiss(self._settings)

    def _store(self, changes: dict[str, Sequence[str]]) -> None:
        """Write keys to the file, and show what holds now."""
        path = self._settings.path
        try:
            for id, keys in changes.items():
                own = tuple(keys) != default_keys(id)
                change_setting(path, "keys", id, (", ".join(keys) or NONE) if own else None)
            self._settings = read_settings(os.environ, path)
        except EngineError as error:
            self._explain(str(error))
            return
        self._keymap = read_keymap(self._settings.keys)
        self._draw(changes)
        self._explain(" ".join(self._keymap.problems))
