"""The line of keys at the bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer


class KeysFooter(Footer):
    """Textual's footer, but for what it leaks (8.2): it is made anew whenever a key means something else.

    Every key on it watches the footer's `compact`, and those that were taken away are forgotten only when that changes:
    a thousand answers would leave a hundred megabytes of them.
    """

    def compose(self) -> ComposeResult:
        """Let go of the keys before, and make the new ones."""
        self.mutate_reactive(Footer.compact)
        yield from super().compose()
