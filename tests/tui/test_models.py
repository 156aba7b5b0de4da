"""What MODEL means."""

from __future__ import annotations

from pathlib import Path

import pytest

from colibri_tui import paths
from colibri_tui.models import demo_folder, list_models, resolve_model
from engine.errors import EngineError
from tests.fake_engine import write_model


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def install(name: str) -> Path:
    return write_model(paths.models_dir() / name)


def complaint(text: str) -> str:
    with pytest.raises(EngineError) as caught:
        resolve_model(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "some model")
    assert resolve_model(str(folder)) == folder
    assert resolve_model("~/some model") == folder
    assert resolve_model("../some model").samefile(folder)


def test_a_name() -> None:
    folder = install("olmoe")
    assert resolve_model("olmoe") == folder


def test_a_folder_wins_over_a_name() -> None:
    install("olmoe")
    here = write_model(Path("olmoe"))
    assert resolve_model("olmoe") == here


def test_a_folder_that_is_no_model_does_not() -> None:
    folder = install("olmoe")
    Path("olmoe").mkdir()
    assert resolve_model("olmoe") == folder


def test_the_demo_is_known_before_it_is_built() -> None:
    assert resolve_model("demo") == demo_folder()
    assert not demo_folder().exists()


@pytest.mark.parametrize("text", ["../models/olmoe", "..", ".", "sub/olmoe", "", "a\0b"])
def test_a_name_is_one_component(text: str) -> None:
    install("olmoe")
    complaint(text)


def test_the_nearest_names_are_offered() -> None:
    install("olmoe-7b")
    install("qwen3-30b")
    assert complaint("olmo-7b").endswith("did you mean olmoe-7b?")
    assert complaint("dmo").endswith("did you mean demo?")
    assert "known names: olmoe-7b, qwen3-30b" in complaint("something else")


def test_with_nothing_installed_the_demo_is_offered() -> None:
    assert "'colibri-tui demo' builds" in complaint("something else")


def test_a_folder_around_the_model(tmp_path: Path) -> None:
    inner = write_model(tmp_path / "outer" / "inner")
    assert str(inner) in complaint(str(tmp_path / "outer"))


def test_a_hub_cache_folder(tmp_path: Path) -> None:
    snapshot = write_model(tmp_path / "models--org--name" / "snapshots" / "abc")
    assert str(snapshot) in complaint(str(tmp_path / "models--org--name"))


def test_an_empty_folder_and_a_file(tmp_path: Path) -> None:
    assert "no config.json and no GGUF file here, so no model folder" in complaint(str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    assert "no GGUF file; MODEL is one, or a folder" in complaint(str(tmp_path / "model.safetensors"))


def test_a_gguf_file_and_the_folder_around_it(tmp_path: Path) -> None:
    folder = tmp_path / "as gguf"
    folder.mkdir()
    assert str(folder / "x.gguf") in complaint(str(folder / "x.gguf"))
    (folder / "x.gguf").touch()
    assert resolve_model(str(folder / "x.gguf")) == folder / "x.gguf"
    assert resolve_model(str(folder)) == folder
    assert complaint(str(tmp_path)).endswith(f"did you mean {folder}?")


def test_list() -> None:
    assert list_models() == []
    two, one = install("b"), install("a")
    (paths.models_dir() / "unfinished").mkdir()
    (paths.models_dir() / "note.txt").touch()
    gguf = paths.models_dir() / "c"
    gguf.mkdir()
    (gguf / "model-00001-of-00002.gguf").touch()
    assert list_models() == [one, two, gguf]
