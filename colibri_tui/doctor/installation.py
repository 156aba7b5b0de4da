"""The installation: Python, packages, folders, settings, compiled kernels."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from engine.compiling import cache_root

from .. import paths
from ..keymap import read_keymap
from ..settings import read_settings
from ..themes import load_themes
from .findings import Finding, fail, ok, warn


def packages() -> Iterator[Finding]:
    """The program's version and those of what it stands on."""
    names = ("numba", "numpy", "textual", "tokenizers", "huggingface_hub")
    found = {name: _version(name) for name in names}
    missing = [name for name, version in found.items() if version is None]
    own = _version("colibri-tui") or "(run from its sources)"
    text = f"colibri-tui {own}, Python {platform.python_version()}, " + ", ".join(
        f"{name} {version}" for name, version in found.items() if version
    )
    if missing:
        yield fail(
            "packages", f"missing: {', '.join(missing)}", "install colibri-tui again, into an environment of its own"
        )
    else:
        yield ok("packages", text)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def folders() -> Iterator[Finding]:
    """Whether what must be kept can be written."""
    for what, folder in (("settings", paths.config_dir()), ("data", paths.data_dir()), ("cache", paths.cache_dir())):
        home = folder
        while not home.exists() and home != home.parent:
            home = home.parent
        try:
            with tempfile.TemporaryFile(dir=home):
                yield ok("folders", f"{what}: {folder}")
        except OSError as error:
            yield fail(
                "folders", f"{what}: {folder} cannot be written ({error.strerror})",
                f"make it yours (chown, chmod), or set {paths.HOME_VARIABLE} to a folder that is",
            )  # fmt: skip


def settings() -> Iterator[Finding]:
    """Whether the settings and themes are understood."""
    found = read_settings(os.environ)
    said = (
        "settings.toml is understood" if found.path.exists() else "none, all defaults; 'colibri-tui config' lists them"
    )
    yield ok("settings", f"{found.path}: {said}")
    for problem in read_keymap(found.keys).problems:
        yield warn("settings", f"{found.path}: {problem}", "correct it; the other keys hold meanwhile")
    for problem in load_themes(paths.themes_dir())[1]:
        yield warn("settings", problem, "correct or remove the theme's file")


def kernels() -> Iterator[Finding]:
    """Whether kernels are compiled already."""
    root = cache_root()
    compiled = sum(1 for _ in Path(root).glob("*/*/*.nbi")) + sum(1 for _ in Path(root).glob("*/*.nbi"))
    if compiled:
        yield ok("kernels", f"compiled, in {root}")
    else:
        yield warn("kernels", "not compiled yet", "nothing to do: the first start takes half a minute longer")
