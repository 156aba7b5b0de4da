"""The texts that come with the program, for measuring models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.engine import Engine

PROMPTS_FOLDER = Path(__file__).parent / "data" / "prompts"


def text_ids(engine: Engine) -> list[list[int]] | None:
    """The texts as ids, by topic; None for a model that has no tokenizer."""
    if engine.tokenizer_or_none is None:
        return None
    return [
        engine.tokenizer.encode(path.read_text(encoding="utf-8")) for path in sorted(PROMPTS_FOLDER.glob("*/*.txt"))
    ]
