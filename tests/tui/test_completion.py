import pytest

from colibri_tui.actions import BY_NAME
from colibri_tui.completion import list_paths, suggest, wanted_path


def labels(line: str, arguments=lambda command: ()) -> list[str]:
    return [suggestion.label for suggestion in suggest(line, arguments)]


def test_a_slash_offers_every_command():
    offered = suggest("/")
    assert {s.text.strip() for s in offered} == {c.slash[0] for c in BY_NAME.values() if c.slash[0].startswith("/")}


def test_what_begins_with_the_letters_comes_first():
    offered = labels("/ren")
    assert offered[:1] == ["/rename [TITLE]"]
    assert "/regen" in labels("/re")
    assert "/new" not in offered


def test_a_command_is_also_found_by_a_word_of_its_title():
    assert "/max-tokens [N|auto]" in labels("/longest")


def test_the_whole_name_stands_first():
    assert labels("/export")[0].startswith("/export")
    assert suggest("/help")[0].final


@pytest.mark.parametrize("line", ["", "hello", "/etc", " /new", "//", "/nothing at all"])
def test_prompts_get_no_offers(line):
    assert labels(line) == []


def test_what_may_follow_a_command():
    assert labels("/export ") == ["md", "json"]
    assert labels("/export J") == ["json"]
    assert labels("/profile co", lambda command: ["default", "coding"]) == ["coding"]
    json = suggest("/export j")[0]
    assert (json.start, json.text, json.final) == (8, "json", True)


@pytest.mark.parametrize(
    ("line", "partial"),
    [
        ("@", ""),
        ("see @src/a", "src/a"),
        ('see @"my no', "my no"),
        ("me@home", None),
        ("see @a.py and", None),
        ("nothing", None),
    ],
)
def test_which_path_is_being_typed(line, partial):
    assert wanted_path(line) == partial


def test_files_are_listed_folders_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "my notes").mkdir()
    for name in ("setup.py", "my notes/one two.md", ".hidden", "bad\x1bname"):
        (tmp_path / name).write_text("")
    offered = list_paths("", "see @")
    assert [s.label for s in offered] == ["my notes/", "src/", "setup.py"]
    assert [s.text for s in offered] == ['@"my notes/', "@src/", "@setup.py "]
    assert {s.start for s in offered} == {4}
    assert [s.text for s in list_paths("my notes/", '@"my notes/')] == ['@"my notes/one two.md" ']
    assert [s.label for s in list_paths("S", "@S")] == ["src/", "setup.py"]
    assert [s.label for s in list_paths(".h", "@.h")] == [".hidden"]
    assert list_paths("nowhere/", "@nowhere/") == []
    assert list_paths("~nosuchuser/", "@~nosuchuser/") == []


def test_a_full_path_is_listed_too(tmp_path):
    (tmp_path / "file").write_text("")
    assert [s.text for s in list_paths(f"{tmp_path}/f", f"@{tmp_path}/f")] == [f"@{tmp_path}/file "]
