import pytest

from colibri_tui.editor import edit
from engine.errors import EngineError


@pytest.fixture
def use(tmp_path, monkeypatch):
    """Return a function that makes a shell script the editor."""

    def make(body: str) -> None:
        script = tmp_path / "my editor"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"'{script}' --wait")

    return make


def test_what_is_in_the_file_afterwards_is_the_draft(use):
    use('[ "$1" = --wait ] && printf "more\\n" >> "$2"')
    assert edit("draft\n") == "draft\nmore"


@pytest.mark.parametrize(
    ("body", "why"),
    [("exit 3", "code 3"), ('rm "$2"', "No such file"), ("printf '\\377' > \"$2\"", "no text in UTF-8")],
)
def test_an_editor_that_fails_leaves_the_draft(use, body, why):
    use(body)
    with pytest.raises(EngineError, match=why):
        edit("draft")


def test_an_editor_that_is_not_there(monkeypatch):
    monkeypatch.setenv("VISUAL", "no-such-editor")
    with pytest.raises(EngineError, match=r"no-such-editor: No such file.*set \$EDITOR"):
        edit("draft")
    monkeypatch.setenv("VISUAL", "'open quote")
    with pytest.raises(EngineError, match="No closing quotation"):
        edit("draft")
