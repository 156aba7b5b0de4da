"""A model's headers, read from the hub without its weights."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from engine.checkpoint.gguf import Gguf, GgufCutError
from engine.checkpoint.gguf_files import gguf_checkpoint
from engine.checkpoint.index import Checkpoint, TensorEntry, header_bytes, parse_header

from .failures import HubError
from .listing import CONFIG, Listing, RemoteFile, Wanted
from .transfer import get_small

_FIRST: Final = 1 << 16
"""Bytes asked for first: many headers are no longer."""

_GGUF_FIRST: Final = 1 << 20
_GGUF_MOST: Final = 128 << 20
"""Headers of GGUF files hold the vocabulary: some 10 MB."""

_AT_ONCE: Final = 8


def remote_checkpoint(listing: Listing, wanted: Wanted, folder: Path) -> Checkpoint:
    """The checkpoint as it will be when its files lie in `folder`. Raises EngineError."""
    if wanted.is_gguf:
        with ThreadPoolExecutor(_AT_ONCE, "headers") as pool:
            parts = list(pool.map(lambda file: (folder / file.local, _gguf(listing, file)), wanted.weights))
        return gguf_checkpoint(folder / wanted.weights[0].local, parts)
    config = read_config(listing)
    with ThreadPoolExecutor(_AT_ONCE, "headers") as pool:
        headers = list(pool.map(lambda file: _header(listing, file, folder), wanted.weights))
    return Checkpoint.of(folder, config, headers)


def read_config(listing: Listing) -> dict[str, Any]:
    """The repository's config.json."""
    try:
        config = json.loads(get_small(listing, listing.files[CONFIG]))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise HubError(f"{listing.repo}: its {CONFIG} is not a JSON object")
    return config


def _gguf(listing: Listing, file: RemoteFile) -> Gguf:
    """A GGUF file's header, which has no length of its own: as much is fetched as it turns out to need."""
    data = b""
    while True:
        data += get_small(listing, file, len(data), max(_GGUF_FIRST, 3 * len(data)))
        try:
            return Gguf(memoryview(data), file.name, file.nbytes)
        except GgufCutError:
            if len(data) >= min(file.nbytes, _GGUF_MOST):
                raise


def _header(listing: Listing, file: RemoteFile, folder: Path) -> tuple[Path, dict[str, str], list[TensorEntry]]:
    path = folder / file.local
    start = get_small(listing, file, 0, _FIRST)
    length = header_bytes(path, file.nbytes, start[:19])
    raw = start[8 : 8 + length]
    if len(raw) < length:
        raw += get_small(listing, file, 8 + len(raw), length - len(raw))
    return path, *parse_header(path, file.nbytes, raw)
