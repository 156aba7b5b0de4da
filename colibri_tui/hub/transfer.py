"""Getting one file of a repository: it goes on where it was cut, and is what the hub says it is.

What has come is kept as `NAME.part` beside the file. A connection that ends early, a server that ignores ranges or
sends too much, and answers that ask for patience are all met with another attempt; only attempts in a row that bring
nothing are counted. The digest is taken while bytes come in; what an earlier run left is read once.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import httpx2
from huggingface_hub import get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from engine.files import sync_folder

from .failures import BUSY, TRANSIENT, HubError, explained
from .listing import Listing, RemoteFile

PIECE: Final = 1 << 20
_RESTARTS: Final = 2
"""How often a file is fetched anew whose content turned out wrong."""


class StoppedError(Exception):
    """Nobody wants the file any more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """timeout: seconds without a byte. pauses: seconds before each further attempt that follows one without a byte."""

    timeout: float = 20.0
    pauses: tuple[float, ...] = (1, 2, 4, 8, 15, 30, 30)


class Told(Protocol):
    """Hears of bytes that came, or, negative, that have to come again; may raise StoppedError."""

    def __call__(self, nbytes: int) -> None:
        """Take note."""


class _Digest:
    """A file's digest, of the kind that the hub gave."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._state = hashlib.sha256() if file.sha256 else hashlib.sha1(usedforsecurity=False)
        if not file.sha256:  # a git blob
            self._state.update(f"blob {file.nbytes}\0".encode())

    def update(self, piece: bytes) -> None:
        self._state.update(piece)

    def matches(self) -> bool:
        """Whether the content is the right one; a hub that gives no digest is trusted."""
        wanted = self._file.sha256 or self._file.git
        return wanted is None or self._state.hexdigest() == wanted


def part_of(folder: Path, file: RemoteFile) -> Path:
    """Where an unfinished file is kept."""
    return folder / (file.local + ".part")


def have(folder: Path, file: RemoteFile) -> int:
    """Bytes of a file that are here already."""
    for path in (folder / file.local, part_of(folder, file)):
        try:
            return min(path.stat().st_size, file.nbytes)
        except FileNotFoundError:
            continue
    return 0


def is_right(path: Path, file: RemoteFile) -> bool:
    """Whether a file here is that of the hub."""
    digest = _Digest(file)
    try:
        with path.open("rb") as stream:
            _read_all(stream, digest, lambda _: None)
            return stream.tell() == file.nbytes and digest.matches()
    except FileNotFoundError:
        return False


def get(listing: Listing, file: RemoteFile, folder: Path, told: Told, patience: Patience) -> None:
    """Bring a file into `folder`. Raises HubError, OSError of the disk, and StoppedError when `told` does."""
    path, part = folder / file.local, part_of(folder, file)
    if path.exists():
        return
    for _ in range(1 + _RESTARTS):
        with part.open("a+b") as stream:
            if _Download(listing, file, stream, told, patience).run():
                stream.flush()
                os.fsync(stream.fileno())
                break
        told(-file.nbytes)
        part.unlink()
    else:
        raise HubError(
            f"{listing.repo}: {file.name} comes with other content than the hub's list says; try again later"
        )
    part.replace(path)
    sync_folder(folder)


class _Download:
    """A file on its way into a stream, whose content so far is kept."""

    def __init__(self, listing: Listing, file: RemoteFile, stream: BinaryIO, told: Told, patience: Patience) -> None:
        self._listing, self._file, self._stream = listing, file, stream
        self._told, self._patience = told, patience
        self._digest = _Digest(file)
        stream.seek(0)
        _read_all(stream, self._digest, told)

    def run(self) -> bool:
        """Bring what is missing; returns whether the content is right."""
        idle, pauses = 0, self._patience.pauses
        while (before := self._stream.tell()) < self._file.nbytes:
            problem = self._attempt()
            self._stream.flush()  # what has come survives a kill
            if before < self._stream.tell():
                idle = 0
            elif idle == len(pauses):
                raise HubError(
                    f"{self._listing.endpoint} stopped sending {self._file.name} ({problem}); what has come is kept, "
                    "the same command goes on from there"
                )
            else:
                self._pause(pauses[idle])
                idle += 1
        return self._stream.tell() == self._file.nbytes and self._digest.matches()

    def _pause(self, duration: float) -> None:
        end = time.monotonic() + duration
        while (left := end - time.monotonic()) > 0:
            self._told(0)
            time.sleep(min(left, 0.1))

    def _attempt(self) -> str:
        """One request; what it brings goes to the end of the stream. Returns how it ended, in a few words."""
        start, file = self._stream.tell(), self._file
        asked = {"Range": f"bytes={start}-"} if start else {}
        with explained(self._listing.repo, file.name, self._listing.endpoint):
            try:
                with _request(self._listing, file, asked, self._patience.timeout) as response:
                    if response.status_code in BUSY:
                        return f"it answered {response.status_code}"
                    hf_raise_for_status(response)
                    if response.status_code == 206 and not _begins(response, start):
                        return "it sent another part"
                    if response.status_code != 206 and start:
                        self._start_over()
                    self._take(response)
            except TRANSIENT as error:
                return type(error).__name__
        return "it ended early"

    def _start_over(self) -> None:
        """The server begins at the beginning whatever was asked for."""
        self._told(-self._stream.tell())
        self._stream.seek(0)
        self._stream.truncate()
        self._digest = _Digest(self._file)

    def _take(self, response: httpx2.Response) -> None:
        """Write what comes, up to the file's end."""
        left = self._file.nbytes - self._stream.tell()
        for piece in response.iter_bytes():
            piece = piece[:left]  # noqa: PLW2901
            self._stream.write(piece)
            self._digest.update(piece)
            self._told(len(piece))
            left -= len(piece)
            if not left:
                break


def _begins(response: httpx2.Response, start: int) -> bool:
    return bool(response.headers.get("Content-Range", "").startswith(f"bytes {start}-"))


@contextmanager
def _request(listing: Listing, file: RemoteFile, headers: dict[str, str], timeout: float) -> Iterator[httpx2.Response]:
    """A request for a file, whose redirects are followed; the token goes to the hub alone."""
    sent = {**build_hf_headers(library_name="colibri-tui"), "Accept-Encoding": "identity", **headers}
    with get_session().stream("GET", listing.url(file.name), headers=sent, timeout=timeout) as response:
        yield response


def _read_all(stream: BinaryIO, digest: _Digest, told: Told) -> None:
    while piece := stream.read(PIECE):
        digest.update(piece)
        told(0)


def get_small(listing: Listing, file: RemoteFile, start: int = 0, nbytes: int | None = None) -> bytes:
    """A file's content, or `nbytes` of it from `start`. Raises HubError."""
    wanted = file.nbytes - start if nbytes is None else min(nbytes, file.nbytes - start)
    if not wanted:
        return b""
    asked = {} if nbytes is None else {"Range": f"bytes={start}-{start + wanted - 1}"}
    for attempt in range(1 + _RESTARTS):
        with explained(listing.repo, file.name, listing.endpoint):
            try:
                content = _get_once(listing, file, asked, start, wanted)
            except TRANSIENT:
                if attempt == _RESTARTS:
                    raise
                continue
        digest = _Digest(file)
        digest.update(content)
        if nbytes is not None or digest.matches():
            return content
    raise HubError(f"{listing.repo}: {file.name} comes with other content than the hub's list says; try again later")


def _get_once(listing: Listing, file: RemoteFile, asked: dict[str, str], start: int, wanted: int) -> bytes:
    with _request(listing, file, asked, Patience().timeout) as response:
        hf_raise_for_status(response)
        if response.status_code == 206 and not _begins(response, start):
            raise httpx2.RemoteProtocolError("another part came")
        skip = start if response.status_code != 206 else 0
        found = bytearray()
        for piece in response.iter_bytes():
            found += piece[skip:]
            skip = max(0, skip - len(piece))
            if len(found) >= wanted:
                return bytes(found[:wanted])
    raise httpx2.RemoteProtocolError("the answer ended early")
