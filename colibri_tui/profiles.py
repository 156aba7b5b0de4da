"""Profiles: one learned history for each kind of work, so that coding does not blur what a chat taught.

A profile is a folder under `profiles/`; in it every model has a folder of its own with a `.coli_usage`. The
profiles in `BUILT_IN` always exist, whether anything was learned in them or not.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path

from engine.checkpoint.gguf_files import is_gguf, model_files
from engine.errors import EngineError
from engine.files import reason

from . import paths

BUILT_IN = ("default", "coding", "chat")
NAME_MAX = 64
_COMPONENT_MAX = 255
"""Bytes in a file name, on every file system in use."""
_HASHED_BYTES = 1 << 20
"""More than any config.json has, and more than the constants at the head of a GGUF file."""

_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices, with any suffix."""


def check_name(name: str) -> str:
    """Return the profile name in its stored form (NFC). Raises EngineError when it is no name for a profile.

    Letters and digits of any script, `-`, `_`, `.` and spaces inside; at most 64 characters. A name is a
    folder on every platform: no separators, no leading or trailing dot, none of Windows' device names.
    """
    name = unicodedata.normalize("NFC", name)
    if not name.strip():
        raise EngineError("a profile needs a name")
    if len(name) > NAME_MAX or len(name.encode(errors="replace")) > _COMPONENT_MAX:
        raise EngineError(f"profile name of {len(name)} characters: at most {NAME_MAX} are allowed")
    for character in name:
        if character not in "-_. " and unicodedata.category(character)[0] not in "LNM":
            raise EngineError(
                f"profile name {name!r}: {character!r} is not allowed; use letters, digits, spaces and - _ ."
            )
    if name[0] in ". " or name[-1] in ". ":
        raise EngineError(f"profile name {name!r}: it may not begin or end with a space or a dot")
    if _DEVICES.fullmatch(name):
        raise EngineError(f"profile name {name!r}: Windows keeps this name for a device; choose another")
    return name


def model_key(path: Path) -> str:
    """Return the name under which a model's history is kept: the folder's name and a hash of its config.json.

    Of a model as GGUF: the (first) file's name and a hash of how the file begins. Raises EngineError when there is
    neither to read.
    """
    if is_gguf(path):
        file = model_files(path)[0]
        named = file.name  # not where a link leads: in the hub's cache that is a number
    else:
        file, named = path / "config.json", path.resolve().name
    try:
        with file.open("rb") as stream:
            digest = hashlib.sha256(stream.read(_HASHED_BYTES)).hexdigest()[:8]
    except FileNotFoundError:
        raise EngineError(f"{path}: no config.json and no GGUF file here, so no model folder") from None
    except OSError as error:
        raise EngineError(f"{file}: cannot be read ({reason(error)})") from error
    name = "".join(character if character.isprintable() else "_" for character in named)
    short = name.encode()[: _COMPONENT_MAX - len(digest) - 1].decode(errors="ignore")
    return f"{short}-{digest}"


def usage_path(profile: str, key: str) -> Path:
    """Return where a profile keeps the history of the model with this `model_key`; it may not exist.

    Raises EngineError for a name that is no profile's.
    """
    return paths.profiles_dir() / check_name(profile) / key / ".coli_usage"


def list_profiles() -> list[str]:
    """Return all profiles: the built-in ones, then the others by name."""
    found = set()
    try:
        for entry in paths.profiles_dir().iterdir():
            if entry.is_dir() and _is_name(entry.name):
                found.add(unicodedata.normalize("NFC", entry.name))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise EngineError(f"{paths.profiles_dir()}: cannot be read ({reason(error)})") from error
    return [*BUILT_IN, *sorted(found.difference(BUILT_IN), key=lambda name: (name.casefold(), name))]


def free_name(name: str) -> str:
    """Return a name that no profile has, in its stored form. Raises EngineError for a bad name or one that is taken.

    Names that differ in upper and lower case alone are the same: they would share a folder on some systems.
    """
    name = check_name(name)
    for taken in list_profiles():
        if taken.casefold() == name.casefold():
            raise EngineError(f"a profile {taken!r} exists already")
    return name


def create(name: str) -> str:
    """Make a new profile and return its name. Raises EngineError for a bad name or one that is taken."""
    name = free_name(name)
    folder = paths.profiles_dir() / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise EngineError(f"{folder}: cannot be created ({reason(error)})") from error
    return name


def frozen_path(profile: str, key: str) -> Path:
    """Return the file that, while it exists, keeps the profile from learning about this model."""
    return usage_path(profile, key).with_name("frozen")


def is_frozen(profile: str, key: str) -> bool:
    """Whether the profile learns nothing about this model."""
    return frozen_path(profile, key).exists()


def models_of(profile: str) -> list[str]:
    """Return the keys of the models that the profile knows something about, by name."""
    folder = paths.profiles_dir() / check_name(profile)
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EngineError(f"{folder}: cannot be read ({reason(error)})") from error


def existing(name: str) -> str:
    """Return the name of a profile that exists. Raises EngineError, with what there is, for any other."""
    name = check_name(name)
    known = list_profiles()
    if name not in known:
        raise EngineError(f"no profile {name!r}; there are {', '.join(known)} (profile create makes one)")
    return name


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except EngineError:
        return False
    return True
