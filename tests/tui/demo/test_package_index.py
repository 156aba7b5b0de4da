"""Fetching without pip: whose index, which file, what goes over the wire."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from colibri_tui.demo import package_index
from colibri_tui.demo.package_index import DEFAULT_INDEX, fetch, index_urls
from engine.errors import EngineError

from .index_server import Index, serve

FILE = "thing-1.0-py3-none-any.whl"
CONTENT = bytes(range(256)) * 10
JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture
def index() -> Iterator[Index]:
    with serve() as server:
        yield server


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those of the test: this machine's own are not looked at."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    real = Path.read_text

    def inside(path: Path, *args: str, **options: str) -> str:
        if not path.is_relative_to(tmp_path):
            raise FileNotFoundError(path)
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", inside)


def settings(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), **variables}


def get(index_url: str, tmp_path: Path, size: int = 10**6, **variables: str) -> bytes:
    target = io.BytesIO()
    environ = settings(tmp_path, PIP_INDEX_URL=index_url, **variables)
    digest = fetch("thing", FILE, size, target, lambda done: None, environ)
    assert digest == hashlib.sha256(target.getvalue()).hexdigest()
    return target.getvalue()


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_without_settings_the_public_index_is_asked(tmp_path: Path) -> None:
    assert index_urls(settings(tmp_path)) == [DEFAULT_INDEX]


@pytest.mark.parametrize(
    ("variables", "urls"),
    [
        ({"PIP_INDEX_URL": "http://p"}, ["http://p"]),
        ({"UV_INDEX_URL": "http://u", "PIP_INDEX_URL": "http://p"}, ["http://u"]),
        ({"UV_DEFAULT_INDEX": "http://d", "UV_INDEX_URL": "http://u"}, ["http://d"]),
        ({"UV_DEFAULT_INDEX": "corp=http://d/?a=b"}, ["http://d/?a=b"]),
        ({"UV_DEFAULT_INDEX": "http://d/?a=b"}, ["http://d/?a=b"]),
        ({"UV_INDEX": "one=http://1 http://2"}, ["http://1", "http://2", DEFAULT_INDEX]),
        (
            {"PIP_EXTRA_INDEX_URL": "http://1 http://2", "UV_EXTRA_INDEX_URL": "http://2"},
            [DEFAULT_INDEX, "http://2", "http://1"],
        ),
    ],
)
def test_variables(tmp_path: Path, variables: dict[str, str], urls: list[str]) -> None:
    assert index_urls(settings(tmp_path, **variables)) == urls


@pytest.mark.parametrize(
    ("place", "content"),
    [
        (".config/uv/uv.toml", '[[index]]\nurl = "http://other"\n[[index]]\nurl = "http://found"\ndefault = true\n'),
        (".config/uv/uv.toml", 'index-url = "http://found"\n'),
        (".config/pip/pip.conf", "[global]\nindex-url = http://found\n"),
        (".pip/pip.conf", "[global]\nindex-url = http://other\n[download]\nindex-url = http://found\n"),
        ("Library/Application Support/pip/pip.conf", "[global]\nindex-url = http://found\n"),
        ("prefix/pip.conf", "[global]\nindex-url = http://found\n"),
        ("named.conf", "[global]\nindex-url = http://found\n"),
    ],
)
def test_configuration_files(tmp_path: Path, place: str, content: str) -> None:
    write(tmp_path / place, content)
    environ = settings(tmp_path, PIP_CONFIG_FILE=str(tmp_path / "named.conf"))
    assert index_urls(environ) == ["http://found"]
    assert index_urls({**environ, "PIP_INDEX_URL": "http://p"}) == ["http://p"]


@pytest.mark.parametrize(
    "content", ["[", "\0", "index = 7", "[[index]]\nurl = 7\ndefault = true", "[global]\n", "\ufeff[global"]
)
def test_configuration_files_that_say_nothing(tmp_path: Path, content: str) -> None:
    write(tmp_path / ".config/uv/uv.toml", content)
    write(tmp_path / ".config/pip/pip.conf", content)
    assert index_urls(settings(tmp_path)) == [DEFAULT_INDEX]


def test_the_configuration_folder_can_be_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = http://found\n")
    assert index_urls(settings(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "xdg"))) == ["http://found"]


def test_a_json_page(index: Index, tmp_path: Path) -> None:
    files = [{"url": 7}, "odd", {"url": "../../other.whl"}, {"url": f"../../files/{FILE}#sha256=0"}]
    index.put("/simple/thing/", json.dumps({"files": files}).encode(), JSON)
    index.put(f"/files/{FILE}", CONTENT)
    assert get(index.url + "/simple/", tmp_path) == CONTENT
    path, _, accept = index.requests[0]
    assert path == "/simple/thing/"
    assert accept is not None
    assert accept.startswith(JSON)


def test_an_html_page_after_a_redirect(index: Index, tmp_path: Path) -> None:
    index.pages["/simple/thing/"] = (302, {"Location": "/mirror/thing/"}, b"")
    page = f'<a name=x>no</a><a href="other.whl">no</a><a data-x="1" href="{FILE.replace("-", "%2D")}#sha256=0">yes</a>'
    index.put("/mirror/thing/", page.encode(), "text/html; charset=utf-8")
    index.put(f"/mirror/thing/{FILE.replace('-', '%2D')}", CONTENT)
    assert get(index.url + "/simple", tmp_path) == CONTENT


def test_progress_counts_bytes_and_can_end_the_download(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_index, "_CHUNK", 1000)
    index.put("/thing/", f'<a href="{FILE}">'.encode(), "text/html")
    index.put(f"/thing/{FILE}", CONTENT)
    seen: list[int] = []

    def progress(done: int) -> None:
        seen.append(done)
        if done >= 2000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("thing", FILE, 10**6, io.BytesIO(), progress, settings(tmp_path, PIP_INDEX_URL=index.url))
    assert seen == [1000, 2000]


def test_no_more_is_read_than_the_file_has(index: Index, tmp_path: Path) -> None:
    index.put("/thing/", f'<a href="{FILE}">'.encode(), "text/html")
    index.put(f"/thing/{FILE}", CONTENT)
    assert get(index.url, tmp_path, size=100) == CONTENT[:100]


def test_a_login_goes_to_the_index_only(index: Index, tmp_path: Path) -> None:
    with serve() as files:
        index.put("/thing/", f'<a href="{files.url}/{FILE}">'.encode(), "text/html")
        files.put(f"/{FILE}", CONTENT)
        assert get(index.url.replace("//", "//me:p%40ss@"), tmp_path) == CONTENT
        assert index.requests[0][1] == "Basic " + base64.b64encode(b"me:p@ss").decode()
        assert files.requests[0][1] is None


def test_a_login_does_not_follow_a_redirect(index: Index, tmp_path: Path) -> None:
    with serve() as elsewhere:
        index.pages["/thing/"] = (302, {"Location": elsewhere.url + "/thing/"}, b"")
        elsewhere.put("/thing/", f'<a href="{FILE}">'.encode(), "text/html")
        elsewhere.put(f"/thing/{FILE}", CONTENT)
        assert get(index.url.replace("//", "//me:secret@"), tmp_path) == CONTENT
        assert [login for _, login, _ in elsewhere.requests] == [None, None]


def test_the_next_index_is_asked_when_one_has_it_not(index: Index, tmp_path: Path) -> None:
    with serve() as extra:
        extra.put("/thing/", f'<a href="{FILE}">'.encode(), "text/html")
        extra.put(f"/thing/{FILE}", CONTENT)
        assert get(index.url, tmp_path, PIP_EXTRA_INDEX_URL=extra.url) == CONTENT
    assert [path for path, _, _ in index.requests] == ["/thing/"]


def test_every_answer_is_told_without_logins(index: Index, tmp_path: Path) -> None:
    index.put("/empty/thing/", b'{"files": []}', JSON)
    index.put("/broken/thing/", b"{", JSON)
    index.pages["/angry/thing/"] = (403, {}, b"")
    host = index.url.replace("//", "//me:secret@")
    extra = [f"{host}/empty", f"{host}/broken", f"{host}/angry", "http://me:secret@127.0.0.1:9", "file:///opt"]
    with pytest.raises(EngineError, match="could not be downloaded") as caught:
        get(f"{host}/missing", tmp_path, PIP_EXTRA_INDEX_URL=" ".join(extra))
    answer = str(caught.value)
    for part in (
        "/missing answers 404",
        "/empty does not have it",
        "/broken: ",
        "/angry answers 403",
        "9: ",
        "file scheme",
    ):
        assert part in answer
    assert "secret" not in answer
    assert "\n" not in answer


def test_an_endless_page_is_refused(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "_PAGE_LIMIT", 100)
    index.put("/thing/", b" " * 101, "text/html")
    with pytest.raises(EngineError, match="list of files is too long"):
        get(index.url, tmp_path)
