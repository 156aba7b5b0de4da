"""What MODEL means on the command line: a folder or GGUF file, the name of a model that was pulled or converted, or
`demo`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

from engine.checkpoint.gguf_files import is_gguf
from engine.errors import EngineError
from engine.files import reason

from . import paths

DEMO: Final = "demo"
"""The name of the model that this program builds itself."""


def demo_folder() -> Path:
    """Where the demo model lies once it is built."""
    return paths.models_dir() / DEMO


def is_model(path: Path) -> bool:
    """Whether a path is a GGUF file, or a folder with one or with a model's config.json."""
    return (path / "config.json").is_file() or (is_gguf(path) and path.exists())


def disk_use(folder: Path) -> int:
    """Return the bytes of a model's files; 0 if they cannot be read."""
    try:
        return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    except OSError:
        return 0


def list_models() -> list[Path]:
    """Return the folders of all models under `models_dir()`, by name.

    Raises EngineError when the folder cannot be read; one that is not there holds no models.
    """
    home = paths.models_dir()
    try:
        return sorted(folder for folder in home.iterdir() if folder.is_dir() and is_model(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EngineError(f"{home}: cannot be read ({reason(error)})") from error


def resolve_model(text: str) -> Path:
    """Return the folder or GGUF file that MODEL means. `demo` is accepted before it is built.

    A folder wins over a name, so that a path that works today is not taken over by a later download.
    Raises EngineError that names what is wrong with the folder, or the names that come nearest.
    """
    if not text or "\0" in text:
        raise EngineError("MODEL is empty: give a folder, a name that 'colibri-tui models' lists, or 'demo'")
    path = Path(text).expanduser()
    named = paths.models_dir() / text
    is_name = path.name == text and text not in (".", "..")
    try:
        if is_model(path):
            return path
        if is_name and (text == DEMO or is_model(named)):
            return named
        raise EngineError(_complaint(text, path))
    except OSError as error:
        raise EngineError(f"{text}: cannot be read ({reason(error)})") from error


def _complaint(text: str, path: Path) -> str:
    if path.is_file():
        return f"{text}: this is no GGUF file; MODEL is one, or a folder with config.json and *.safetensors"
    if path.is_dir():
        found = (path.glob(depth + name) for depth in ("*/", "snapshots/*/") for name in ("config.json", "*.gguf"))
        inside = next((folder for files in found for folder in sorted(file.parent for file in files)), None)
        hint = f"; did you mean {inside}?" if inside else ", so no model folder"
        return f"{text}: no config.json and no GGUF file here{hint}"
    names = [folder.name for folder in list_models()]
    near = difflib.get_close_matches(text, {*names, DEMO}, n=3, cutoff=0.5)
    if near:
        return f"no model folder or name {text!r}; did you mean {' or '.join(near)}?"
    known = f"known names: {', '.join(names)}" if names else "no model is installed"
    return f"no model folder or name {text!r} ({known}); 'colibri-tui demo' builds a small one"
