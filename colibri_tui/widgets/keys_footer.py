"""The line of keys at the bottom."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from colibri_tui.key_names import NONE

GAP: Final = 2
"""Columns between two keys; the style sheet says so too."""
_STAY: Final = frozenset({"stop", "back", "help", "app.command_palette", "command_palette"})
"""Actions whose keys are shown in the narrowest window: with them everything else is found."""


class KeysFooter(Footer):
    """Textual's footer, which shows the keys that fit, whole, and leaves out the others.

    And without what it leaks (8.2): it is made anew whenever a key means something else. Every key on it watches the
    footer's `compact`, and those that were taken away are forgotten only when that changes: a thousand answers would
    leave a hundred megabytes of them.
    """

    def compose(self) -> ComposeResult:
        """Let go of the keys before, and make the new ones."""
        self.mutate_reactive(Footer.compact)
        for key in super().compose():
            if not isinstance(key, FooterKey) or key.key != NONE:
                yield key

    async def recompose(self) -> None:
        """Show what fits of the new keys."""
        await super().recompose()
        self._fit()

    def on_resize(self) -> None:
        """Another number of them fits."""
        self._fit()

    def _fit(self) -> None:
        """Leave out keys from the end until the others have room; those that must stay, last of all."""
        keys = list(self.query_children(FooterKey))
        wide = {key: cell_len(key.key_display) + cell_len(key.description) + 1 + GAP for key in keys}
        too_wide = sum(wide.values()) - GAP - self.size.width
        left_out = set()
        for key in sorted(keys, key=lambda key: (key.action in _STAY, -keys.index(key))):
            if too_wide <= 0:
                break
            left_out.add(key)
            too_wide -= wide[key]
        for key in keys:
            key.display = key not in left_out
