"""Profiles: names that are safe everywhere, keys that tell models apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui import paths, profiles
from engine.errors import EngineError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    return tmp_path


def model(folder: Path, config: str = '{"model_type": "olmoe"}') -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config)
    return folder


@pytest.mark.parametrize("name", ["default", "my work", "a", "C_3.5-x", "Übung", "日本語", "हिन्दी", "x" * 64])
def test_good_names(name: str) -> None:
    assert profiles.check_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "needs a name"),
        ("   ", "needs a name"),
        ("x" * 65, "65 characters: at most 64"),
        ("\U00020000" * 64, "at most 64"),
        ("a/b", "'/' is not allowed"),
        ("a\\b", "is not allowed"),
        ("a:b", "':' is not allowed"),
        ("a\nb", r"'\\n' is not allowed"),
        ("a\x1b[2Jb", r"'\\x1b' is not allowed"),
        ("a\u202eb", r"'\\u202e' is not allowed"),
        ("a\udcffb", "is not allowed"),
        ("..", "begin or end"),
        (".hidden", "begin or end"),
        (" left", "begin or end"),
        ("right ", "begin or end"),
        ("dot.", "begin or end"),
        ("CON", "Windows"),
        ("nul.txt", "Windows"),
    ],
)
def test_bad_names_are_one_clear_line(name: str, why: str) -> None:
    with pytest.raises(EngineError, match=why) as refused:
        profiles.check_name(name)
    assert str(refused.value).isprintable()


@given(st.text(max_size=80))
def test_an_accepted_name_stays_inside_its_folder(name: str) -> None:
    try:
        stored = profiles.check_name(name)
    except EngineError:
        return
    place = profiles.usage_path(stored, "model-12345678")
    assert place.parent.parent.parent == paths.profiles_dir()
    assert profiles.check_name(stored) == stored


def test_composed_and_decomposed_letters_are_one_name() -> None:
    assert profiles.check_name("U\u0308bung") == "\u00dcbung"


def test_model_key_is_the_folders_name_and_a_hash_of_its_config(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"{}").hexdigest()[:8]
    folder = model(tmp_path / "OLMoE-1B-7B", "{}")
    assert profiles.model_key(folder) == f"OLMoE-1B-7B-{digest}"


def test_model_key_tells_folders_and_configs_apart_but_not_the_way_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = model(tmp_path / "a" / "model")
    other = model(tmp_path / "b" / "model", '{"model_type": "olmoe", "num_experts": 8}')
    assert profiles.model_key(first) != profiles.model_key(other)
    monkeypatch.chdir(first)
    assert profiles.model_key(Path()) == profiles.model_key(first)
    (tmp_path / "link").symlink_to(first)
    assert profiles.model_key(tmp_path / "link") == profiles.model_key(first)


def test_model_key_of_an_odd_folder_is_still_a_file_name(tmp_path: Path) -> None:
    key = profiles.model_key(model(tmp_path / "a\x1b\nb"))
    assert key.startswith("a__b-")
    long = profiles.model_key(model(tmp_path / ("ü" * 127)))
    assert len(long.encode()) <= 255
    (tmp_path / long).mkdir()


def test_model_key_needs_a_config(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no config\.json and no GGUF file here"):
        profiles.model_key(tmp_path)
    with pytest.raises(EngineError, match=r"no config\.json and no GGUF file here"):
        profiles.model_key(tmp_path / "missing")
    (tmp_path / "config.json").mkdir()
    with pytest.raises(EngineError, match=r"config\.json: cannot be read"):
        profiles.model_key(tmp_path)


def test_model_key_of_a_gguf_file_is_that_of_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "model-00001-of-00002.gguf"
    file.write_bytes(b"GGUF one")
    (tmp_path / "model-00002-of-00002.gguf").write_bytes(b"GGUF two")
    digest = hashlib.sha256(b"GGUF one").hexdigest()[:8]
    assert profiles.model_key(tmp_path) == profiles.model_key(file) == f"{file.name}-{digest}"
    with pytest.raises(EngineError, match="no config"):
        profiles.model_key(tmp_path / "missing.gguf")


def test_usage_path_is_the_documented_place(tmp_path: Path) -> None:
    expected = tmp_path / "home" / "data" / "profiles" / "coding" / "olmoe-12345678" / ".coli_usage"
    assert profiles.usage_path("coding", "olmoe-12345678") == expected
    with pytest.raises(EngineError):
        profiles.usage_path("../coding", "olmoe-12345678")


def test_the_built_in_profiles_always_exist() -> None:
    assert profiles.list_profiles() == ["default", "coding", "chat"]
    assert not paths.profiles_dir().exists()


def test_created_profiles_are_listed_after_them() -> None:
    assert profiles.create("work") == "work"
    profiles.create("Alpha")
    (paths.profiles_dir() / "chat").mkdir()
    (paths.profiles_dir() / ".trash").mkdir()
    (paths.profiles_dir() / "file").touch()
    assert profiles.list_profiles() == ["default", "coding", "chat", "Alpha", "work"]


@pytest.mark.parametrize("name", ["default", "Coding", "work", "WORK"])
def test_a_name_is_given_once(name: str) -> None:
    profiles.create("work")
    with pytest.raises(EngineError, match="exists already"):
        profiles.create(name)


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    paths.data_dir().mkdir(parents=True)
    paths.profiles_dir().touch()
    with pytest.raises(EngineError, match="profiles: cannot be read"):
        profiles.create("work")
