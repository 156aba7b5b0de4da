"""Tokenizer and chat template of a model, wherever it has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import tokenizer as hub
from .gguf import has_vocabulary, load_gguf
from .template import ChatTemplate
from .tokenizer import Tokenizer


def open_text(
    model: Path, metadata: Mapping[str, Any], template: str | None
) -> tuple[Tokenizer | None, ChatTemplate | None]:
    """Return what turns text into ids, and conversations into text; None where the model has none.

    model: a folder, or a GGUF file with its `metadata`. template: a file to use instead of the model's own template.
    Raises CheckpointError for a broken file.
    """
    own: ChatTemplate | None = None
    if (model / hub.FILE).exists():
        tokenizer = Tokenizer.load(model)
        own = ChatTemplate.load(model, tokenizer) if template is None else None
    elif has_vocabulary(metadata):
        tokenizer, own = load_gguf(metadata, str(model))
    else:
        return None, None
    return tokenizer, own if template is None else ChatTemplate.from_file(Path(template), tokenizer)
