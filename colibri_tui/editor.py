"""The draft in a person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from engine.errors import EngineError
from engine.files import reason


def edit(text: str) -> str:
    """Open the text in `$VISUAL` or `$EDITOR`, else vi, wait for its end, and return what is in the file then.

    Raises EngineError when the editor cannot be started, fails, or leaves no text.
    """
    name = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(name)
    except ValueError as error:
        raise EngineError(f"$EDITOR {name!r}: {error}") from None
    with tempfile.TemporaryDirectory(prefix="colibri-") as folder:
        file = Path(folder) / "message.md"
        try:
            file.write_text(text, encoding="utf-8")
            code = subprocess.run([*command, file], check=False).returncode
            if code:
                raise EngineError(f"{name}: ended with code {code}, so the draft stays as it was")
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else "left no text in UTF-8"
            raise EngineError(f"{name}: {why}; set $EDITOR to your editor") from error
