"""What the conductor asks of the screen. The chat screen is one; a test may be another."""

from __future__ import annotations

from typing import Literal, Protocol

from colibri_tui.session import Said
from engine.events import Turn

Severity = Literal["information", "warning", "error"]
Actions = tuple[tuple[str, str], ...]
"""What can be done about a notice: (key, label) pairs."""


class View(Protocol):
    """What the conductor asks of the screen."""

    @property
    def gone(self) -> bool:
        """Whether there is nothing to draw on any more: the program ends."""

    def show_conversation(self, messages: list[Said]) -> None:
        """Show these messages instead of what was there."""

    def show_prompt(self, said: Said) -> None:
        """Show a prompt, and the place where its answer will appear."""

    def show_reply(self, reply: Said | None) -> None:
        """Show the place where an answer will appear, with what it has already."""

    def show_progress(self, text: str, fraction: float) -> None:
        """Say what happens before the first token."""

    def show_reasoning(self, text: str, label: str) -> None:
        """Add to what is thought before the answer; `label` says how long it took so far."""

    def show_text(self, text: str) -> None:
        """Add to the answer."""

    def end_reply(self, status: str, note: str) -> None:
        """End the answer."""

    def take_back(self) -> None:
        """Remove the last prompt, which has no answer."""

    def tell(self, text: str, severity: Severity = "information", actions: Actions = ()) -> None:
        """Put a notice into the transcript."""

    def put_back(self, text: str) -> None:
        """Return a prompt to where it was written."""

    def set_draft(self, text: str) -> None:
        """Put a stored draft into the composer, unless something was typed there meanwhile."""

    def turn_began(self) -> None:
        """Telemetry will move now."""

    def turn_ended(self, turn: Turn | None) -> None:
        """Telemetry has come to rest; the turn's own report, if it was made."""

    def model_changed(self) -> None:
        """A model begins or ends to be there: what was drawn of the last one is stale."""

    def state_changed(self) -> None:
        """Status, queue, and what can be done now may have changed."""
