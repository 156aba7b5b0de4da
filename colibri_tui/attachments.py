"""Text files that go along with a prompt: `@path` in it names one.

The prompt is kept as it was typed and the file as it was then, so that a conversation reads the same when the file
has changed or gone. Only plain text of a bounded size is taken; what looks like a name but is no file stays a word.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from colibri_tui.render.clean import clean
from engine.errors import EngineError
from engine.files import reason

FILE_MAX: Final = 256 * 1024
FILES_MAX: Final = 16
_NAMED = re.compile(r'(?:(?<=\s)|^)@(?:"([^"\n]+)"|([^\s"]+))')
_TICKS = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as it was when its prompt was sent. name: the path as it was typed."""

    name: str
    text: str

    @property
    def words(self) -> str:
        """What the transcript says about it."""
        lines = self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))
        return f"{clean(self.name)}, {lines} line{'s' * (lines != 1)}"


def names(prompt: str) -> list[str]:
    """Return what a prompt names with `@`, each once, in order."""
    return list(dict.fromkeys(quoted or bare for quoted, bare in _NAMED.findall(prompt)))


def read_attachments(prompt: str) -> tuple[Attachment, ...]:
    """Read every file that the prompt names; names of nothing are no files. May wait for a slow disk.

    Raises EngineError for a file that is no text, too large, unreadable, or for too many of them.
    """
    found: dict[str, Path] = {}
    for name in names(prompt):
        for candidate in (name, name.rstrip(_PUNCTUATION)):
            if (path := _file(candidate)) is not None:
                found[candidate] = path
                break
    if len(found) > FILES_MAX:
        raise EngineError(f"{len(found)} files in one prompt; at most {FILES_MAX} are taken")
    return tuple(Attachment(name, _read(path)) for name, path in found.items())


_PUNCTUATION: Final = ".,;:!?)"
"""What may follow a name in a sentence without being part of it."""


def _file(name: str) -> Path | None:
    """Return the file that a name means; None if there is none."""
    try:
        path = Path(name).expanduser()
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, a person unknown, a zero byte
        return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX + 1)
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({reason(error)})") from error
    if len(data) > FILE_MAX:
        raise EngineError(f"{path}: larger than {FILE_MAX // 1024} KiB; attach a part of it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise EngineError(f"{path}: not a text file in UTF-8, so it is not attached")
    return text


def with_files(prompt: str, files: tuple[Attachment, ...]) -> str:
    """Return what the model is told: the prompt, and below it every file in a fence that it cannot close."""
    parts = [prompt]
    for file in files:
        fence = "`" * max([2, *(len(ticks) for ticks in _TICKS.findall(file.text))]) + "`"
        parts.append(f"{file.name}:\n{fence}\n{file.text.rstrip()}\n{fence}")
    return "\n\n".join(parts)


def dump(files: tuple[Attachment, ...]) -> str:
    """Return the files as they are stored; '' for none."""
    return json.dumps([asdict(file) for file in files]) if files else ""


def load(text: str) -> tuple[Attachment, ...]:
    """Return stored files; ones that cannot be read are left out."""
    try:
        stored = json.loads(text) if text else []
        return tuple(Attachment(str(file["name"]), str(file["text"])) for file in stored)
    except (ValueError, TypeError, KeyError):
        return ()
