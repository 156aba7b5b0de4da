import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.attachments import (
    FILE_MAX,
    FILES_MAX,
    Attachment,
    dump,
    load,
    names,
    read_attachments,
    with_files,
)
from engine.errors import EngineError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_stand_behind_an_at_sign_at_the_beginning_of_a_word():
    assert names('see @a.py and @"my notes.md", not me@home.org or @a.py again') == ["a.py", "my notes.md"]


def test_a_file_is_read_as_it_is_now(here):
    (here / "a.py").write_text("x = 1\n")
    files = read_attachments("explain @a.py")
    (here / "a.py").write_text("y = 2\n")
    assert files == (Attachment("a.py", "x = 1\n"),)
    assert files[0].words == "a.py, 1 line"


def test_a_full_stop_behind_a_name_is_no_part_of_it(here):
    (here / "a.py").write_text("x")
    assert [file.name for file in read_attachments("explain @a.py, please. And @a.py.")] == ["a.py"]


def test_a_name_of_nothing_is_a_word(here):
    (here / "src").mkdir()
    assert read_attachments("use @angular/core, @nobody, @src and @" + "x" * 5000) == ()
    assert read_attachments("@~nosuchuser/x @\0") == ()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe", "not a text file"), (b"a\0b", "not a text file"), (b"x" * (FILE_MAX + 1), "larger than 256 KiB")],
)
def test_what_is_no_small_text_is_refused(here, content, why):
    (here / "f").write_bytes(content)
    with pytest.raises(EngineError, match=why):
        read_attachments("@f")


def test_too_many_files_are_refused(here):
    for number in range(FILES_MAX + 1):
        (here / f"f{number}").write_text("x")
    with pytest.raises(EngineError, match="at most 16"):
        read_attachments(" ".join(f"@f{number}" for number in range(FILES_MAX + 1)))


def test_a_file_that_cannot_be_read_is_refused(here):
    (here / "f").write_text("x")
    (here / "link").symlink_to(here / "f")
    (here / "f").chmod(0)
    try:
        (here / "f").read_text()
    except PermissionError:
        with pytest.raises(EngineError, match="cannot be read"):
            read_attachments("@f")


@given(st.text(), st.text())
def test_a_file_cannot_close_its_fence(prompt, text):
    told = with_files(prompt, (Attachment("f", text),))
    assert told.startswith(prompt)
    fence = told.rsplit("\n", 1)[1]
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert fence not in text


@given(st.lists(st.builds(Attachment, st.text(), st.text()), max_size=3))
def test_files_are_kept_as_they_were(files):
    assert load(dump(tuple(files))) == tuple(files)


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"name": 1}]', "null"])
def test_what_cannot_be_read_is_no_file(text):
    assert load(text) == ()


def test_without_files_the_prompt_is_all():
    assert with_files("hello", ()) == "hello"
    assert dump(()) == ""
