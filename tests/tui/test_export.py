import json

import pytest

from colibri_tui import chat_settings, export
from colibri_tui.attachments import Attachment, dump
from colibri_tui.chat_settings import ChatSettings
from colibri_tui.conversations import Conversations
from colibri_tui.thought import Thought
from engine.errors import EngineError

STATS = {"tokens": 12, "tok_s": 3.5, "ttft_s": 0.25, "hits": {"pin": 1, "cache": 2, "disk": 1}, "keff": 2.0}


@pytest.fixture
def stored(tmp_path):
    store = Conversations(tmp_path / "c.db")
    number = store.create("olmoe-1", "default", settings=chat_settings.dump(ChatSettings("Be brief.", 0.2)))
    store.add(number, "user", "What is @a.py?", attachments=dump((Attachment("a.py", "x = 1\n"),)))
    reply = store.add(number, "assistant", "A **file**.")
    store.update(reply, status="done", stats=STATS, thought=Thought("\nIt ends in .py.\n", 2.5, 40))
    store.add(number, "user", "forgotten", "replaced")
    yield store.get(number), store.messages(number)
    store.close()


def test_markdown_reads_as_it_was_said(stored):
    text = export.markdown(*stored)
    assert text.startswith('---\ntitle: "What is @a.py?"\nmodel: "olmoe-1"\n')
    assert "temperature: 0.2" in text
    assert "## System\n\nBe brief.\n" in text
    assert "## You\n\nWhat is @a.py?\n\na.py:\n```\nx = 1\n```\n" in text
    thought = "<details><summary>thought for 2.5 s, 40 tokens</summary>\n\nIt ends in .py.\n\n</details>"
    assert f"## Model\n\n{thought}\n\nA **file**.\n" in text
    assert "12 tokens, 3.50 tok/s, first token after 0.2 s, 75 % of experts from memory, 2.0 experts" in text
    assert "forgotten" not in text


def test_json_leaves_nothing_out(stored):
    data = json.loads(export.as_json(*stored))
    assert data["settings"] == {"system": "Be brief.", "temperature": 0.2}
    assert [(m["role"], m["status"]) for m in data["messages"]] == [
        ("user", "done"),
        ("assistant", "done"),
        ("user", "replaced"),
    ]
    assert data["messages"][0]["files"] == [{"name": "a.py", "text": "x = 1\n"}]
    assert data["messages"][1]["turn"] == STATS
    assert [message["reasoning"] for message in data["messages"]] == ["", "\nIt ends in .py.\n", ""]


def test_nothing_is_overwritten(stored, tmp_path):
    first = export.write(tmp_path, "md", *stored)
    second = export.write(tmp_path, "md", *stored)
    assert (first.name, second.name) == ("what-is-a-py.md", "what-is-a-py-2.md")
    assert first.read_text() == second.read_text()


def test_where_nothing_can_be_written_is_said(stored, tmp_path):
    with pytest.raises(EngineError, match="cannot be written"):
        export.write(tmp_path / "nowhere", "json", *stored)


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("", "conversation"),
        ("???", "conversation"),
        ("../../etc/passwd", "etc-passwd"),
        ("Hello, World", "hello-world"),
        ("世界 café", "世界-café"),
        ("word " * 40, "word" + "-word" * 11),
    ],
)
def test_names_are_safe(title, stem):
    assert export.file_stem(title) == stem


def test_figures_that_are_no_figures_are_left_out(stored):
    summary, messages = stored
    from dataclasses import replace

    broken = [replace(messages[1], stats={"tokens": 0, "tok_s": "fast", "hits": []}, status="stopped")]
    assert "*stopped*" in export.markdown(summary, broken)
