"""Prompts that wait for the model, dimmed, above the place where the next one is written."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from colibri_tui.render.clean import clean

SHOWN = 3


class QueueView(Static):
    """One line a prompt, the next one first; not displayed when none waits."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    QueueView {
        height: auto; width: 1fr; display: none;
        color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis;
    }
    QueueView.-shown { display: block; }
    """

    def show(self, prompts: Sequence[str]) -> None:
        """Show what waits."""
        lines = [f"queued: {' '.join(clean(prompt).split())}" for prompt in prompts[:SHOWN]]
        if len(prompts) > SHOWN:
            lines.append(f"and {len(prompts) - SHOWN} more")
        self.update(Content("\n".join(lines)))
        self.set_class(bool(prompts), "-shown")
