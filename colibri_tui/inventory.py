"""The models on this machine: our own, those in the hub's cache, and what was left unfinished."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.checkpoint.gguf_files import is_gguf, model_files
from engine.errors import EngineError
from engine.files import reason
from engine.headers import family_of

from . import paths
from .models import cached_models, disk_use, list_models
from .profiles import list_profiles, model_key, usage_path

_UNFINISHED: Final = (".pulling", ".converting", ".building")


@dataclass(frozen=True, slots=True)
class Installed:
    """A model.

    name: what to type for it. nbytes: on disk. family: empty when it cannot be told, then `problem` says why.
    last_used: seconds since 1970, None if nothing was learned with it. cached: it lies in the hub's cache.
    """

    name: str
    path: Path
    nbytes: int
    family: str
    problem: str
    last_used: float | None
    cached: bool


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A download or conversion that was interrupted."""

    name: str
    path: Path
    nbytes: int


def installed() -> list[Installed]:
    """All models, ours first. Raises EngineError when our folder cannot be read."""
    own = [(path.name, path, False) for path in list_models()]
    return [_look(*one) for one in (*own, *((name, path, True) for name, path in cached_models().items()))]


def _look(name: str, path: Path, cached: bool) -> Installed:
    try:
        family, problem = family_of(path), ""
    except EngineError as error:
        family, problem = "", str(error)
    return Installed(name, path, disk_use(path), family, problem, _last_used(path), cached)


def _last_used(path: Path) -> float | None:
    """When a history of it was last saved."""
    try:
        key = model_key(path)
        times = [file.stat().st_mtime for name in list_profiles() if (file := usage_path(name, key)).exists()]
    except (EngineError, OSError):
        return None
    return max(times, default=None)


def unfinished() -> list[Unfinished]:
    """What an interrupted command left among our models."""
    try:
        folders = [path for path in paths.models_dir().iterdir() if path.name.startswith(".") and path.is_dir()]
    except OSError:
        return []
    found = []
    for path in sorted(folders):
        name, _, kind = path.name[1:].rpartition(".")
        if name and f".{kind}" in _UNFINISHED:
            found.append(Unfinished(name, path, sum(_sizes(path))))
    return found


def _sizes(folder: Path) -> Iterator[int]:
    for file in folder.rglob("*"):
        try:
            yield file.stat().st_size if file.is_file() else 0
        except OSError:
            continue


def removable(name: str) -> list[Path]:
    """What `remove` takes away for a name: the model, and what is unfinished of it. Raises EngineError for nothing."""
    found = [path for path in list_models() if path.name == name]
    found += [one.path for one in unfinished() if one.name == name]
    if not found and name not in cached_models():
        raise EngineError(f"no model {name!r} among those of this program; 'colibri-tui models' lists them")
    return found


def remove(name: str) -> int:
    """Remove a model, or what is unfinished of it; returns the bytes that are free now. Histories stay.

    A link among our models is removed, not what it leads to. Raises EngineError.
    """
    found = removable(name)
    if not found:
        return _remove_cached(name)
    freed = 0
    for path in found:
        try:
            if path.is_symlink():
                path.unlink()
            else:
                freed += sum(_sizes(path))
                shutil.rmtree(path)
        except OSError as error:
            raise EngineError(f"{error.filename or path}: cannot be removed ({reason(error)})") from None
    return freed


def _remove_cached(name: str) -> int:
    """Let the hub's library remove what it keeps."""
    from huggingface_hub import scan_cache_dir

    from .models import hub_cache

    cache = scan_cache_dir(hub_cache())
    revisions = [
        revision.commit_hash
        for repo in cache.repos
        if repo.repo_id == name and repo.repo_type == "model"
        for revision in repo.revisions
    ]
    plan = cache.delete_revisions(*revisions)
    plan.execute()
    return plan.expected_freed_size


def weight_files(path: Path) -> list[Path]:
    """The files with a model's weights. Raises EngineError."""
    return model_files(path) if is_gguf(path) else sorted(path.glob("*.safetensors"))
