"""What a model thought before its answer, and what that took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from colibri_tui.render.units import seconds as duration


@dataclass(frozen=True, slots=True)
class Thought:
    """text: as it came. seconds: how long it took. tokens: how many came before the answer's first word."""

    text: str = ""
    seconds: float = 0.0
    tokens: int = 0

    def grown(self, text: str, seconds: float, tokens: int) -> Thought:
        """Return this with more of each."""
        return Thought(self.text + text, self.seconds + seconds, self.tokens + tokens)

    def label(self, *, growing: bool = False) -> str:
        """Return the line that stands for it; zeros are not known."""
        figures = [duration(self.seconds)] if self.seconds else []
        if self.tokens:
            figures.append(f"{self.tokens:,} token{'s' if self.tokens > 1 else ''}")
        if growing:
            return ", ".join(["thinking", *figures])
        return f"thought for {', '.join(figures)}" if figures else "thought"


NO_THOUGHT: Final = Thought()
