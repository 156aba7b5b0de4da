"""Getting a model in a process of its own, as the screen does."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from colibri_tui.fetching import StoppedError, fetch, is_repository
from colibri_tui.models import is_model
from engine.errors import EngineError
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub
from tests.tui.hub.hub_server import Hub, serving


@pytest.mark.parametrize(
    "text", ["Qwen/Qwen3-30B-A3B", "a/b@v1.0", "https://huggingface.co/a/b", "a/b@refs/pr/3", "a/b:Q4_K_M"]
)
def test_repositories(text: str) -> None:
    assert is_repository(text)


@pytest.mark.parametrize("text", ["", "demo", "./a/b", "/a/b", "~/a", "../b", "a/b/c", "a b/c"])
def test_what_is_none(text: str) -> None:
    assert not is_repository(text)


def test_a_model_comes_and_errors_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serving() as hub:
        _published(hub, tmp_path, monkeypatch)
        told: list[tuple[str, int, int]] = []
        folder = fetch("someone/little", lambda *said: told.append(said), threading.Event())
        assert is_model(folder)
        assert (folder / "colibri.json").exists()
        assert told[0][0] == "asking the hub"
        with pytest.raises(EngineError, match=r"^someone/nothing: no such model at "):
            fetch("someone/nothing", lambda *_: None, threading.Event())


def test_a_download_that_is_stopped_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the hub says nothing, and the child neither."""
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    stop, set_at = threading.Event(), [0.0]

    def stop_it(*_: object) -> None:
        set_at[0] = time.monotonic()
        stop.set()

    with serving() as hub:
        _published(hub, tmp_path, monkeypatch)
        hub.faults["someone/little"] = [("stall", 60)]
        with pytest.raises(StoppedError):
            fetch("someone/little", stop_it, stop)
        assert time.monotonic() - set_at[0] < 5  # half a second on a machine that has time


def _published(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("someone/little", write_hub(tmp_path / "little", CASES["olmoe"]))
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
