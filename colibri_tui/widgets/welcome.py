"""What an empty conversation says: what this is, and the few keys with which everything else is found."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widgets import Static

_KEYS: Final = (
    ("Enter", "sends, Ctrl+J begins a new line"),
    ("/", "commands, @ a text file to send along"),
    ("F2", "the map of all experts, live"),
    ("Ctrl+O", "models, Ctrl+S conversations"),
    ("F1", "help, with all keys"),
)


def _words() -> Content:
    wide = max(len(key) for key, _ in _KEYS)
    return Content("\n").join(
        [
            Content.styled("colibri-tui", "bold $accent"),
            Content.styled("Chat with models larger than your memory, and watch their experts work.", "$text-muted"),
            Content(),
            *(Content.assemble((key.ljust(wide + 3), "bold"), (words, "$text-muted")) for key, words in _KEYS),
        ]
    )


class Welcome(Static):
    """Stands in the transcript until the first message."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Welcome { height: auto; width: 1fr; margin: 1 1 1 2; }"

    def __init__(self) -> None:
        super().__init__(_words())
