"""A conversation's state in a file, so that it is taken up another day without being read again.

    "COLIKEPT", length of the header (4 bytes), header (JSON), ids (int32), the parts of the memory, BLAKE2b of all that

The header names the model, the format of the numbers, how the experts were limited, and how many tokens and which mark
there are. All sizes follow from it, and the file must have exactly that size before anything of it is read. Parts do
not depend on the length of the context, so that a file outlives a change of `--context`.

A file is replaced whole or not at all. What cannot be used is refused by one line; the conversation is read again then.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from .checkpoint.index import Checkpoint
from .errors import StateError
from .events import State
from .files import reason, replace_written
from .model.conversation import Conversation
from .model.strips import Bytes

MAGIC: Final = b"COLIKEPT"
VERSION: Final = 1
"""Also to be raised when the same model and ids leave other numbers behind."""

_DIGEST = 16
_HEADER_MAX = 4096
_LEFT_FREE = 256 << 20
"""Bytes that stay free on the disk: what was said matters more."""
_STALE_S = 3600.0
"""Seconds after which a half-written file is nobody's any more."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a state must agree with. model: see `fingerprint`. kv: format of the numbers. top_k, top_p: how the
    experts were limited."""

    model: str
    kv: str
    top_k: int | None
    top_p: float | None


def fingerprint(checkpoint: Checkpoint) -> str:
    """A hash of a model's config, of where its tensors lie, and of its files' sizes and times of change."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    digest.update(json.dumps(checkpoint.config, sort_keys=True).encode())
    entries = checkpoint.tensors.values()
    for entry in sorted(f"{e.name}\0{e.file.name}\0{e.offset}\0{e.dtype}\0{e.shape}" for e in entries):
        digest.update(entry.encode(errors="surrogatepass"))
    for file in sorted({entry.file for entry in entries}):
        status = file.stat()
        digest.update(f"{file.name}\0{status.st_size}\0{status.st_mtime_ns}".encode(errors="surrogateescape"))
    return digest.hexdigest()


def save(path: Path, identity: Identity, conversation: Conversation, most: int | None = None) -> State:
    """Write the state of a conversation.

    Raises StateError: when it cannot be written, takes more than `most` bytes, or nothing is held.
    """
    if not conversation.ids:
        raise StateError(f"{path}: there is no conversation to keep")
    mark = conversation.saved_mark()
    ids = np.array(conversation.ids, np.int32)
    facts = {"version": VERSION, **asdict(identity), "tokens": len(ids), "mark": mark}
    header = json.dumps(facts).encode()
    start = MAGIC + len(header).to_bytes(4, "little") + header
    size = _file_bytes(len(start), conversation, len(ids), mark)

    if most is not None and size > most:
        raise StateError(f"{path}: the context is not kept: it takes {size / 1e9:.2f} GB, of {most / 1e9:.2f} allowed")

    def write(file: BinaryIO) -> None:
        digest = hashlib.blake2b(digest_size=_DIGEST)
        for part in _all(start, ids.view(np.uint8), conversation.parts(mark)):
            file.write(part)
            digest.update(part)
        file.write(digest.digest())

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path)
        if shutil.disk_usage(path.parent).free < size + _LEFT_FREE:
            raise StateError(f"{path}: the context is not kept: no space left for {size / 1e6:,.0f} MB")
        replace_written(path, path.with_name(f"{path.name}.{secrets.token_hex(4)}.new"), write)
    except OSError as error:
        raise StateError(f"{path}: the context cannot be kept ({reason(error)})") from error
    return State("saved", str(path), len(ids), size)


def load(path: Path, identity: Identity, conversation: Conversation, vocab: int, context: int) -> State:
    """Take up the state in a file. Raises StateError.

    A file that is refused at first sight leaves the conversation as it is, one that turns out to be damaged leaves it
    empty.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(path, "not an ordinary file")
        with path.open("rb", buffering=0) as file:
            _load(path, file, status.st_size, identity, conversation, vocab, context)
    except OSError as error:
        raise _refusal(path, f"cannot be read ({reason(error)})") from error
    return State("loaded", str(path), len(conversation.ids), status.st_size)


def _load(
    path: Path, file: BinaryIO, size: int, identity: Identity, conversation: Conversation, vocab: int, context: int
) -> None:
    digest = hashlib.blake2b(digest_size=_DIGEST)

    def fill(parts: Iterable[Bytes]) -> None:
        for part in parts:
            rest = _flat(part)
            while rest:
                count = file.readinto(rest)  # type: ignore[attr-defined]
                if not count:
                    raise _refusal(path, "damaged: it ends too soon")
                digest.update(rest[:count])
                rest = rest[count:]

    head = np.zeros(len(MAGIC) + 4, np.uint8)
    if size < len(head):
        raise _refusal(path, "not the state of a conversation")
    fill((head,))
    length = int.from_bytes(head[len(MAGIC) :].tobytes(), "little")
    if head[: len(MAGIC)].tobytes() != MAGIC or not length <= min(_HEADER_MAX, size):
        raise _refusal(path, "not the state of a conversation")
    header = np.zeros(length, np.uint8)
    fill((header,))
    tokens, mark = _agreed(path, header.tobytes(), identity, context)
    if size != _file_bytes(len(head) + length, conversation, tokens, mark):
        raise _refusal(path, "damaged: its size is not what its header says")
    ids = np.zeros(tokens, np.int32)
    fill((ids.view(np.uint8),))
    if int(ids.min()) < 0 or int(ids.max()) >= vocab:
        raise _refusal(path, "damaged: a token id is outside the vocabulary")

    def fill_checked(parts: Iterable[Bytes]) -> None:
        fill(parts)
        if file.read(_DIGEST) != digest.digest():
            raise _refusal(path, "damaged: its checksum is wrong")

    conversation.take_up(ids.tolist(), mark, fill_checked)


def _agreed(path: Path, header: bytes, identity: Identity, context: int) -> tuple[int, int]:
    """Tokens and mark of a header that fits the model as it is loaded."""
    try:
        facts: Any = json.loads(header)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise _refusal(path, "damaged: its header cannot be read")
    if facts.get("version") != VERSION:
        raise _refusal(path, "written by another version of the program")
    if facts.get("model") != identity.model:
        raise _refusal(path, "of another model, or of this one before its files were changed")
    if facts.get("kv") != identity.kv:
        raise _refusal(path, f"its numbers are not {identity.kv} (--kv)")
    if (facts.get("top_k"), facts.get("top_p")) != (identity.top_k, identity.top_p):
        raise _refusal(path, "computed with other experts (--topk, --topp)")
    tokens, mark = facts.get("tokens"), facts.get("mark")
    if type(tokens) is not int or type(mark) is not int or not 0 <= mark < tokens:
        raise _refusal(path, "damaged: its header makes no sense")
    if tokens > context:
        raise _refusal(path, f"it holds {tokens:,} tokens, the context window {context:,}")
    return tokens, mark


def _file_bytes(start: int, conversation: Conversation, tokens: int, mark: int) -> int:
    return start + 4 * tokens + conversation.part_bytes(tokens, mark) + _DIGEST


def _all(start: bytes, ids: Bytes, parts: Iterator[Bytes]) -> Iterator[bytes | memoryview]:
    yield start
    yield _flat(ids)
    for part in parts:
        yield _flat(part)


def _flat(part: Bytes) -> memoryview:
    """The bytes of an array without gaps, not copied."""
    return part.data.cast("B") if part.nbytes else memoryview(b"")


def _remove_stale(path: Path) -> None:
    """Remove what writers that were killed left beside the file."""
    before = time.time() - _STALE_S
    for file in path.parent.glob(f"{path.name}.*.new"):
        if file.stat().st_mtime < before:
            file.unlink(missing_ok=True)


def _refusal(path: Path, why: str) -> StateError:
    return StateError(f"{path}: {why}; the conversation is read again")
