"""One line of a text: the title a prompt gives its conversation, and what a list of finds shows."""

from __future__ import annotations

from typing import Final

TITLE_MAX: Final = 60
_BEFORE, _AFTER = 24, 100
"""Characters that are shown around what was found."""


def title_of(prompt: str) -> str:
    """Return a title made from a prompt: its first line with text, spaces tidied, at most 60 characters."""
    joiners = "\u200c\u200d"  # not printable alone, but part of emoji and of words in several scripts
    for line in prompt.splitlines():
        shown = "".join(c if c.isprintable() or c in joiners else " " for c in line)
        title = " ".join(shown.split())
        if title:
            return title if len(title) <= TITLE_MAX else title[: TITLE_MAX - 1].rstrip() + "…"
    return ""


def excerpt(content: str, words: str) -> str:
    """Return one line of a text around its first `words` (case-folded): what a list of finds shows."""
    folded = content.casefold()
    at = folded.find(words)
    # Folding may lengthen a text before the place; the excerpt is then off by as little.
    start = max(at - _BEFORE, 0)
    part = " ".join(content[start : at + len(words) + _AFTER].split())
    before = "…" if start else ""
    return before + part
