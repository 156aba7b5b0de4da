import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.settings_file import change_setting, changed_text, toml
from engine.errors import EngineError

FILE = """\
# mine
[engine]
ram = 12.5   # GB
pin = "auto" # learned
policy = 'lru'

[ui]
theme = "ember"
"""


def test_one_key_changes_and_the_rest_stays():
    assert changed_text(FILE, "engine", "ram", 8.0) == FILE.replace("12.5", "8.0")
    assert changed_text(FILE, "ui", "theme", "okabe") == FILE.replace("ember", "okabe")


def test_a_key_that_was_not_there_is_added_to_its_table():
    assert changed_text(FILE, "engine", "topp", 0.8) == FILE.replace("'lru'\n", "'lru'\ntopp = 0.8\n")
    assert changed_text(FILE, "ui", "ascii", True) == FILE + "ascii = true\n"


def test_a_key_is_taken_out():
    assert changed_text(FILE, "engine", "policy", None) == FILE.replace("policy = 'lru'\n", "")
    assert changed_text(FILE, "engine", "topp", None) == FILE
    assert changed_text("", "engine", "topp", None) == ""


def test_a_file_begins(tmp_path):
    path = tmp_path / "config" / "settings.toml"
    change_setting(path, "ui", "theme", "okabe")
    change_setting(path, "engine", "direct", False)
    assert path.read_text() == '[ui]\ntheme = "okabe"\n\n[engine]\ndirect = false\n'


@pytest.mark.parametrize(
    "text",
    ['ui.theme = "ember"\n', '[ui]\ntheme = """ember\n"""\n', 'ui = {theme = "ember"}\n', "[ui\n", "ui = 3\n"],
)
def test_what_cannot_be_changed_is_left_alone(tmp_path, text):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(EngineError, match=r"only you can change|not valid TOML"):
        change_setting(path, "ui", "theme", "okabe")
    assert path.read_text() == text


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="cannot be written"):
        change_setting(tmp_path / "file" / "settings.toml", "ui", "theme", "okabe")


@given(st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans())
def test_values_are_written_as_they_are(value):
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        return
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


@given(st.sampled_from(["ram", "pin", "policy", "topp"]), st.integers(1, 9) | st.none())
def test_every_change_means_what_it_says(key, value):
    before = tomllib.loads(FILE)
    after = tomllib.loads(changed_text(FILE, "engine", key, value))
    assert after["ui"] == before["ui"]
    assert after["engine"].get(key) == value
    assert {k: v for k, v in after["engine"].items() if k != key} == {
        k: v for k, v in before["engine"].items() if k != key
    }
