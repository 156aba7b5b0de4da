"""What an empty conversation says: what this is, and the few keys with which everything else is found."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widgets import Static

from colibri_tui.bindings import keymap_of
from colibri_tui.keymap import Keymap

_KEYS: Final = (
    ("{composer_submit}", "sends, {composer_newline} begins a new line"),
    ("/", "commands, @ a text file to send along"),
    ("{atlas}", "the map of all experts, live"),
    ("{models}", "models, {conversations} conversations"),
    ("{help}", "help, with all keys"),
)


def _words(keymap: Keymap) -> Content:
    keys = [(keymap.fill(key), keymap.fill(words)) for key, words in _KEYS]
    wide = max(len(key) for key, _ in keys)
    return Content("\n").join(
        [
            Content.styled("colibri-tui", "bold $accent"),
            Content.styled("Chat with models larger than your memory, and watch their experts work.", "$text-muted"),
            Content(),
            *(Content.assemble((key.ljust(wide + 3), "bold"), (words, "$text-muted")) for key, words in keys),
        ]
    )


class Welcome(Static):
    """Stands in the transcript until the first message."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Welcome { height: auto; width: 1fr; margin: 1 1 1 2; }"

    def render(self) -> Content:
        """Return the words, with the keys in force."""
        return _words(keymap_of(self.app))
