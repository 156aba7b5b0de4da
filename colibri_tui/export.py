"""A conversation as a file: Markdown to read, JSON to work with. Nothing that was said is left out of the JSON."""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from colibri_tui import attachments, chat_settings
from colibri_tui.conversations import ConversationSummary, StoredMessage
from colibri_tui.render.units import tokens
from colibri_tui.session import REPLACED, WITHDRAWN
from engine.errors import EngineError
from engine.files import reason

Format = Literal["md", "json"]
_NAME_MAX: Final = 60
_TRIES: Final = 1000


def markdown(conversation: ConversationSummary, messages: Sequence[StoredMessage]) -> str:
    """Return what was said, under headings, with the figures of every answer."""
    settings = chat_settings.load(conversation.settings)
    head = {
        "title": conversation.title,
        "model": conversation.model,
        "profile": conversation.profile,
        "begun": _when(conversation.created),
        "updated": _when(conversation.updated),
        **settings.numbers,
    }
    lines = ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()), "---"]
    if settings.system:
        lines += ["", "## System", "", settings.system]
    for message in messages:
        if message.status in (REPLACED, WITHDRAWN):
            continue
        lines += ["", "## You" if message.role == "user" else "## Model", ""]
        if thought := message.thought.text.strip():
            lines += [f"<details><summary>{message.thought.label()}</summary>", "", thought, "", "</details>", ""]
        lines.append(attachments.with_files(message.content, attachments.load(message.attachments)).rstrip())
        if message.role != "user":
            lines += ["", f"*{_figures(message)}*"]
    return "\n".join(lines) + "\n"


def as_json(conversation: ConversationSummary, messages: Sequence[StoredMessage]) -> str:
    """Return everything that is stored, also what was replaced or never answered (see `status`)."""
    data: dict[str, Any] = {
        "title": conversation.title,
        "model": conversation.model,
        "profile": conversation.profile,
        "created": conversation.created,
        "updated": conversation.updated,
        "settings": {"system": chat_settings.load(conversation.settings).system}
        | chat_settings.load(conversation.settings).numbers,
        "messages": [
            {
                "role": message.role,
                "content": message.content,
                "reasoning": message.thought.text,
                "status": message.status,
                "note": message.note,
                "created": message.created,
                "files": [{"name": f.name, "text": f.text} for f in attachments.load(message.attachments)],
                "turn": message.stats,
            }
            for message in messages
        ],
    }
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def write(folder: Path, kind: Format, conversation: ConversationSummary, messages: Sequence[StoredMessage]) -> Path:
    """Write a conversation to a new file in a folder, named after its title, and return the file.

    Nothing is overwritten: a number follows a name that is taken. Raises EngineError if it cannot be written.
    """
    text = markdown(conversation, messages) if kind == "md" else as_json(conversation, messages)
    stem = file_stem(conversation.title)
    for number in range(1, _TRIES):
        path = folder / (f"{stem}.{kind}" if number == 1 else f"{stem}-{number}.{kind}")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise EngineError(f"{path}: cannot be written ({reason(error)}); change to another folder") from error
        return path
    raise EngineError(f"{folder / stem}: {_TRIES} exports of this name are there already; remove some")


def file_stem(title: str) -> str:
    """Return a file name for a title: its letters and digits, words joined by dashes."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", title).lower())
    stem = ""
    for word in words:
        if len(f"{stem}-{word}".encode()) > _NAME_MAX:
            break
        stem = f"{stem}-{word}" if stem else word
    return stem or "conversation"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _figures(message: StoredMessage) -> str:
    """Return one line about an answer: how it ended, and what it took."""
    turn = message.stats or {}
    parts = [] if message.status == "done" else [message.status]
    if turn.get("tokens"):
        parts.append(tokens(turn["tokens"]))
    if isinstance(turn.get("tok_s"), int | float):
        parts.append(f"{turn['tok_s']:.2f} tok/s")
    if isinstance(turn.get("ttft_s"), int | float):
        parts.append(f"first token after {turn['ttft_s']:.1f} s")
    hits = turn.get("hits")
    if isinstance(hits, dict) and (total := sum(v for v in hits.values() if isinstance(v, int))):
        parts.append(f"{100 * (total - hits.get('disk', 0)) / total:.0f} % of experts from memory")
    if isinstance(turn.get("keff"), int | float) and turn["keff"]:
        parts.append(f"{turn['keff']:.1f} experts a token and layer")
    return ", ".join(parts) or "done"
