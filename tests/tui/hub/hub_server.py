"""A hub on this machine: lists repositories, serves files with ranges and redirects, and misbehaves as told."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".gguf", ".bin")


@dataclass
class Repository:
    """Files by name. gated: only for the token. commit: what `main` is."""

    files: dict[str, bytes]
    gated: bool = False
    commit: str = COMMIT


@dataclass
class Hub:
    """repositories: by name. faults: by file name, or a repository's name for its list: what happens to its requests:

    ("cut", n)    n bytes of the answer, then the connection ends
    ("status", s) an answer of that status, and nothing else
    ("whole", 0)  the range that was asked for is ignored
    ("long", n)   n more bytes than belong to the file
    ("stall", s)  nothing for s seconds, then the connection ends
    ("lie", 0)    other bytes than the list says
    ("shift", 0)  another range than was asked for

    cdn: large files are redirected to another address. log: (method, path, range, authorization) of every request.
    """

    repositories: dict[str, Repository] = field(default_factory=dict)
    faults: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    token: str = "hf_secret_token"
    cdn: str = ""
    address: str = ""
    log: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, folder: Path, **options: Any) -> Repository:
        """Publish a folder."""
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.repositories[name] = Repository(files, **options)
        return self.repositories[name]

    def requests(self, name: str) -> list[str | None]:
        """The ranges that were asked of a file."""
        return [asked for _, path, asked, _ in self.log if path.endswith("/" + name)]


def _sibling(name: str, data: bytes) -> dict[str, Any]:
    if name.endswith(LARGE):
        digest = hashlib.sha256(data).hexdigest()
        lfs = {"lfs": {"sha256": digest, "size": len(data), "pointerSize": 134}}
        return {"rfilename": name, "size": len(data), "blobId": "f" * 40, **lfs}
    blob = hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
    return {"rfilename": name, "size": len(data), "blobId": blob}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None:
        """Quietly."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        hub, path = self.hub, unquote(self.path.partition("?")[0])
        authorization = self.headers.get("Authorization")
        hub.log.append((self.command, path, self.headers.get("Range"), authorization))
        if path.startswith("/api/models/"):
            self._list(path.removeprefix("/api/models/"))
            return
        stem, _, rest = path.removeprefix("/cdn").lstrip("/").partition("/resolve/")
        repository = hub.repositories.get(stem)
        if repository is None:
            self._refuse(404, "RepoNotFound")
            return
        _revision, _, name = rest.partition("/")
        on_cdn = path.startswith("/cdn")
        if repository.gated and not on_cdn and authorization != f"Bearer {hub.token}":
            self._refuse(403 if authorization else 401, "GatedRepo")
        elif name not in repository.files:
            self._refuse(404, "EntryNotFound")
        elif hub.cdn and not on_cdn and name.endswith(LARGE):
            self._send(302, b"", {"Location": f"{hub.cdn}/cdn{path}?signature=secret"})
        else:
            self._file(name, repository, body)

    def _list(self, rest: str) -> None:
        name, _, revision = rest.partition("/revision/")
        repository = self.hub.repositories.get(name)
        kind, number = self._fault(name)
        if kind == "status":
            self._send(number, b"", {})
        elif repository is None:
            self._refuse(404, "RepoNotFound")
        elif revision not in ("", "main", repository.commit):
            self._refuse(404, "RevisionNotFound")
        else:
            said = {
                "id": name, "sha": repository.commit, "gated": "manual" if repository.gated else False,
                "siblings": [_sibling(file, data) for file, data in repository.files.items()],
            }  # fmt: skip
            self._send(200, json.dumps(said).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, repository: Repository, body: bool) -> None:
        data = repository.files[name]
        kind, number = self._fault(name)
        if kind == "status":
            self._send(number, b"", {})
            return
        if kind == "lie":
            data = bytes(len(data))
        start, end, status = 0, len(data), 200
        asked = self.headers.get("Range")
        if asked and kind != "whole":
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(int(last) + 1 if last else len(data), len(data)), 206
            if start >= len(data):
                self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
        if kind == "shift":
            start = max(0, start - 1)
        content = data[start:end] + b"\xaa" * (number if kind == "long" else 0)
        headers = {"ETag": '"etag"', "X-Repo-Commit": repository.commit, "Accept-Ranges": "bytes"}
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{start + len(content) - 1}/{len(data)}"
        if kind == "stall":
            self.hub.stopping.wait(number)
            self.close_connection = True
            return
        keep = number if kind == "cut" else None
        self._send(status, content, headers, keep)
        self.hub.sent[name] = self.hub.sent.get(name, 0) + len(content[:keep])

    def _fault(self, name: str) -> tuple[str, int]:
        left = self.hub.faults.get(name)
        return left.pop(0) if left else ("", 0)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b'{"error": "refused"}', {"X-Error-Code": code})

    def _send(self, status: int, content: bytes, headers: dict[str, str], keep: int | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            if self.command != "HEAD":
                self.wfile.write(content[:keep])
        except ConnectionError:
            self.close_connection = True
        if keep is not None:
            self.wfile.flush()
            self.close_connection = True


@contextmanager
def serving(cdn: bool = False) -> Iterator[Hub]:
    """A hub that runs until the end of the block; `cdn`: large files come from another port."""
    hub = Hub()
    servers = [_start(hub) for _ in range(2 if cdn else 1)]
    hub.address = f"http://127.0.0.1:{servers[0].server_port}"
    if cdn:
        hub.cdn = f"http://localhost:{servers[1].server_port}"
    try:
        yield hub
    finally:
        hub.stopping.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def _start(hub: Hub) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server
