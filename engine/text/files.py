"""Reading the small text files of a model folder. They come from outside, so size and shape are checked first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ..errors import CheckpointError
from ..files import reason

TEXTS: Final = (
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json", "generation_config.json",
    "special_tokens_map.json", "LICENSE",
)  # fmt: skip
"""The files beside a model's weights that say how to talk to it."""

CONFIG_LIMIT = 64 << 20
"""Bytes a configuration file may have; the largest real ones (with thousands of added tokens) have under 2 MB."""


def read_text(path: Path, limit: int = CONFIG_LIMIT) -> str:
    """Return the file as text. Raises CheckpointError when it cannot be read, is too large or is not UTF-8."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise CheckpointError(f"{path}: {size} bytes, more than the {limit} such a file may have")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not UTF-8 at byte {error.start}; download the file again") from None


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in the file. Raises CheckpointError when there is none."""
    try:
        value = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: not valid JSON ({error}); download the file again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds a {type(value).__name__} where a JSON object belongs")
    return value


def read_object_if_present(path: Path) -> dict[str, Any]:
    """Like `read_object`, but an absent file is an empty object."""
    return read_object(path) if path.exists() else {}


def one_line(text: str, limit: int = 300) -> str:
    """Return foreign text fit for an error message: one line, no control characters, at most `limit` characters."""
    line = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
