"""What MODEL means on the command line: a folder or GGUF file, the name of a model that was pulled or converted, or
`demo`."""

from __future__ import annotations

import difflib
import os
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


def hub_cache() -> Path:
    """The folder in which the hub's own library keeps what it has downloaded."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def cached_models() -> dict[str, Path]:
    """Return the models in the hub's cache, complete by the look of them: OWNER/NAME -> the newest snapshot.

    A cache that is not there, or cannot be read, holds none: it is another program's.
    """
    found: dict[str, Path] = {}
    try:
        for folder in sorted(hub_cache().glob("models--*--*")):
            snapshots = [path for path in (folder / "snapshots").iterdir() if _is_snapshot(path)]
            if snapshots:
                found["/".join(folder.name.split("--")[1:])] = max(snapshots, key=lambda path: path.stat().st_mtime)
    except OSError:
        return found
    return found


def _is_snapshot(path: Path) -> bool:
    return is_model(path) and any(file.is_file() for kind in ("*.safetensors", "*.gguf") for file in path.glob(kind))


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
        if text in (cached := cached_models()):
            return cached[text]
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
    names = [folder.name for folder in list_models()] + list(cached_models())
    near = difflib.get_close_matches(text, {*names, DEMO}, n=3, cutoff=0.5)
    if near:
        return f"no model folder or name {text!r}; did you mean {' or '.join(near)}?"
    known = f"known names: {', '.join(names)}" if names else "no model is installed"
    return f"no model folder or name {text!r} ({known}); 'colibri-tui demo' builds a small one"
