"""Fetching one file from a Python package index, for installations that have no pip.

The index is the one that the user's own settings name, uv's before pip's, since a program without pip was most likely
installed by uv. What arrives is judged by its checksum alone, so it does not matter which of several indexes has it.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from colibri_tui.render.clean import clean
from engine.errors import EngineError

DEFAULT_INDEX = "https://pypi.org/simple"
_JSON = "application/vnd.pypi.simple.v1+json"
_PAGE_LIMIT = 32 << 20
_CHUNK = 1 << 18
_TIMEOUT = 60.0
_NAMED = re.compile(r"^[\w.-]+=(?=.)")
"""uv's variables may give an index a name before its URL."""


def index_urls(environ: Mapping[str, str]) -> list[str]:
    """Return the indexes that the settings name, in the order in which they are asked; never empty.

    Looked at: UV_INDEX, UV_DEFAULT_INDEX, UV_INDEX_URL, PIP_INDEX_URL, uv.toml, pip's configuration files, and the
    variables for extra indexes.
    """
    main = (
        environ.get("UV_DEFAULT_INDEX")
        or environ.get("UV_INDEX_URL")
        or environ.get("PIP_INDEX_URL")
        or next(_configured(environ), DEFAULT_INDEX)
    )
    before = environ.get("UV_INDEX", "").split()
    after = [*environ.get("UV_EXTRA_INDEX_URL", "").split(), *environ.get("PIP_EXTRA_INDEX_URL", "").split()]
    return list(dict.fromkeys(_NAMED.sub("", entry) for entry in [*before, main, *after]))


def _configured(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the index URLs of configuration files, the most specific first."""
    home = Path(environ.get("HOME", "~")).expanduser()
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    for path in (config / "uv/uv.toml", Path("/etc/uv/uv.toml")):
        yield from _from_uv(path)
    pip_files = [
        Path(environ.get("PIP_CONFIG_FILE", os.devnull)),
        Path(sys.prefix, "pip.conf"),
        config / "pip/pip.conf",
        home / "Library/Application Support/pip/pip.conf",
        home / ".pip/pip.conf",
        Path("/etc/pip.conf"),
    ]
    for path in pip_files:
        yield from _from_pip(path)


def _from_uv(path: Path) -> Iterator[str]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # not there, or not for us to complain about
    indexes = settings.get("index")
    for index in indexes if isinstance(indexes, list) else []:
        if isinstance(index, dict) and index.get("default") is True and isinstance(index.get("url"), str):
            yield index["url"]
    if isinstance(settings.get("index-url"), str):
        yield settings["index-url"]


def _from_pip(path: Path) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error):
        return
    for section in ("download", "global"):
        if parser.has_option(section, "index-url"):
            yield parser.get(section, "index-url").strip()


def fetch(
    project: str,
    filename: str,
    size: int,
    target: BinaryIO,
    progress: Callable[[int], None],
    environ: Mapping[str, str],
) -> str:
    """Write a project's file to `target` and return its SHA-256; at most `size` bytes are read.

    Every index is asked in turn; progress(bytes so far). Raises EngineError that says what each of them answered.
    """
    opener = _opener(environ)
    answers = []
    for index in index_urls(environ):
        try:
            page = f"{index.rstrip('/')}/{project}/"
            url = _link(opener, page, filename)
            if url is None:
                answers.append(f"{_shown(index)} does not have it")
                continue
            return _download(opener, url, page, size, target, progress)
        except HTTPError as error:
            answers.append(f"{_shown(index)} answers {error.code} {error.reason}")
        except URLError as error:
            answers.append(f"{_shown(index)}: {error.reason}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            answers.append(f"{_shown(index)}: {error}")
    raise EngineError(f"{filename} could not be downloaded ({' '.join(clean('; '.join(answers)).split())})")


def _opener(environ: Mapping[str, str]) -> OpenerDirector:
    """Return an opener that trusts what pip is told to trust; proxies are taken from the environment as usual."""
    return build_opener(HTTPSHandler(context=ssl.create_default_context(cafile=environ.get("PIP_CERT") or None)))


def _open(opener: OpenerDirector, url: str, page: str, accept: str) -> http.client.HTTPResponse:
    """Open a URL. A name and password in the index's URL are sent to its host only, and never through a redirect."""
    parts, home = urlsplit(url), urlsplit(page)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{parts.scheme or 'no'} scheme; only http and https indexes are read")
    request = Request(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), headers={"Accept": accept})
    login, _, host = home.netloc.rpartition("@")
    if login and host == parts.netloc.rpartition("@")[2]:
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(unquote(login).encode()).decode())
    response: http.client.HTTPResponse = opener.open(request, timeout=_TIMEOUT)
    return response


def _link(opener: OpenerDirector, page: str, filename: str) -> str | None:
    """Return the URL of a file on a project's page (the simple API, JSON or HTML); None if it is not there."""
    with _open(opener, page, page, f"{_JSON}, text/html;q=0.5") as response:
        content = response.read(_PAGE_LIMIT + 1)
        kind = response.headers.get_content_type()
        base = response.geturl()
    if len(content) > _PAGE_LIMIT:
        raise ValueError("its list of files is too long")
    links = _json_links(content) if kind == _JSON else _html_links(content)
    for url in links:
        plain = urldefrag(urljoin(base, url)).url
        if unquote(urlsplit(plain).path).rpartition("/")[2] == filename:
            return plain
    return None


def _json_links(content: bytes) -> list[str]:
    page: Any = json.loads(content)
    files = page.get("files") if isinstance(page, dict) else None
    entries = files if isinstance(files, list) else []
    return [entry["url"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("url"), str)]


def _html_links(content: bytes) -> list[str]:
    links: list[str] = []

    class Anchors(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(value for name, value in attrs if tag == "a" and name == "href" and value)

    parser = Anchors()
    parser.feed(content.decode("utf-8", "replace"))
    parser.close()
    return links


def _download(
    opener: OpenerDirector, url: str, page: str, size: int, target: BinaryIO, progress: Callable[[int], None]
) -> str:
    digest = hashlib.sha256()
    done = 0
    target.seek(0)
    target.truncate()
    with _open(opener, url, page, "*/*") as response:
        while done < size and (chunk := response.read(min(_CHUNK, size - done))):
            target.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done)
    return digest.hexdigest()


def _shown(index: str) -> str:
    """Return an index's URL without a name and password."""
    parts = urlsplit(index)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
