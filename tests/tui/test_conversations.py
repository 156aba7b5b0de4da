"""Conversations: what is said is kept, whatever happens to the program, the disk or the file."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colibri_tui.conversations import Conversations, StoredMessage, title_of
from colibri_tui.database import StoreError
from colibri_tui.thought import Thought


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def store(path: Path) -> Iterator[Conversations]:
    with contextlib.closing(Conversations(path)) as store:
        yield store


def only_message(store: Conversations, conversation: int) -> StoredMessage:
    (message,) = store.messages(conversation)
    return message


def test_what_is_added_comes_back_in_order(store: Conversations) -> None:
    before = time.time()
    conversation = store.create("olmoe", "coding")
    store.add(conversation, "system", "Be brief.")
    store.add(conversation, "user", "Hello\nworld 🌍 \0 \x1b[2J")
    reply = store.add(conversation, "assistant", "", status="growing")
    store.update(reply, content="Hi")
    store.update(reply, content="Hi there", status="stopped", note="stopped by you", stats={"tok_s": 3.5})
    system, user, assistant = store.messages(conversation)
    assert (system.role, system.content, system.status) == ("system", "Be brief.", "done")
    assert user.content == "Hello\nworld 🌍 \0 \x1b[2J"
    assert (assistant.id, assistant.content, assistant.status) == (reply, "Hi there", "stopped")
    assert (assistant.note, assistant.stats) == ("stopped by you", {"tok_s": 3.5})
    assert before <= system.created <= assistant.created <= time.time()
    summary = store.latest()
    assert summary is not None
    assert (summary.id, summary.title) == (conversation, "Hello")
    assert (summary.model, summary.profile, summary.messages) == ("olmoe", "coding", 3)


def test_everything_is_there_after_a_restart(path: Path) -> None:
    with contextlib.closing(Conversations(path)) as store:
        conversation = store.create("olmoe", "default")
        store.add(conversation, "user", "Hello")
        store.set_draft(conversation, "and")
    with contextlib.closing(Conversations(path)) as store:
        assert store.notices == ()
        assert only_message(store, conversation).content == "Hello"
        assert store.get_draft(conversation) == "and"


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Hello", "Hello"),
        ("\n \n  How   are\tyou?  \nBye", "How are you?"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 20, "word word word word word word word word word word word word…"),
        ("\x1b[31mred\u202e", "[31mred"),
        ("👩\u200d💻 code", "👩\u200d💻 code"),
        (" \n", ""),
    ],
)
def test_titles_are_one_clean_line(prompt: str, title: str) -> None:
    assert title_of(prompt) == title
    assert len(title) <= 60


def test_a_title_comes_from_the_first_prompt_and_stays(store: Conversations) -> None:
    first, named = store.create("m", "default"), store.create("m", "default", "My title")
    for conversation in (first, named):
        store.add(conversation, "system", "Not this")
        store.add(conversation, "user", "First")
        store.add(conversation, "user", "Second")
    assert {item.id: item.title for item in store.list()} == {first: "First", named: "My title"}
    store.rename(first, " Better \n name")
    store.add(first, "user", "Third")
    assert {item.id: item.title for item in store.list()}[first] == "Better"
    with pytest.raises(StoreError, match="needs a title"):
        store.rename(first, " \n ")


def test_the_list_is_newest_first_and_limited(store: Conversations) -> None:
    one, two, three = (store.create(model, "default") for model in ("a", "b", "a"))
    assert [item.id for item in store.list()] == [three, two, one]
    message = store.add(one, "user", "again")
    assert [item.id for item in store.list(limit=2)] == [one, three]
    store.add(two, "user", "later")
    store.update(message, note="touched")
    assert [item.id for item in store.list()] == [one, two, three]
    assert store.latest().id == one
    assert store.latest("b").id == two
    assert store.latest("c") is None


def test_search_looks_into_titles_and_messages_of_any_script(store: Conversations) -> None:
    one, two = store.create("m", "default", "ÄPFEL"), store.create("m", "default", "other")
    store.add(two, "assistant", "50% of a_b")
    assert [item.id for item in store.list(search="äpfel")] == [one]
    assert [item.id for item in store.list(search="OF A")] == [two]
    assert [item.id for item in store.list(search="50% of")] == [two]
    assert store.list(search="a%b") == store.list(search="aXb") == []


def test_deleting_takes_messages_and_draft_along(store: Conversations, path: Path) -> None:
    conversation, other = store.create("m", "default"), store.create("m", "default")
    message = store.add(conversation, "user", "gone")
    store.set_draft(conversation, "gone")
    store.delete(conversation)
    store.delete(conversation)
    assert [item.id for item in store.list()] == [other]
    assert store.messages(conversation) == []
    assert store.get_draft(conversation) == ""
    assert store.create("m", "default") not in (conversation, other)
    with pytest.raises(StoreError, match="no longer exists"):
        store.add(conversation, "user", "late")
    with pytest.raises(StoreError, match="no longer exists"):
        store.update(message, content="late")
    with pytest.raises(StoreError, match="no longer exists"):
        store.rename(conversation, "late")


def test_drafts_belong_to_a_conversation_or_to_none(store: Conversations) -> None:
    conversation = store.create("m", "default")
    assert store.get_draft(None) == store.get_draft(conversation) == ""
    store.set_draft(None, "free")
    store.set_draft(conversation, "bound")
    store.set_draft(None, "free 2")
    assert (store.get_draft(None), store.get_draft(conversation)) == ("free 2", "bound")
    store.set_draft(None, "")
    assert (store.get_draft(None), store.get_draft(conversation)) == ("", "bound")
    with pytest.raises(StoreError):
        store.set_draft(99, "nowhere")


def test_prompt_history_has_each_prompt_once_newest_last(store: Conversations) -> None:
    first, second = store.create("m", "default"), store.create("m", "default")
    for conversation, prompt in ((first, "a"), (second, "b"), (first, "c"), (second, "a")):
        store.add(conversation, "user", prompt)
        store.add(conversation, "assistant", "reply")
    assert store.prompt_history() == ["b", "c", "a"]
    assert store.prompt_history(2) == ["c", "a"]


def test_text_that_no_file_can_hold_is_stored_readably(store: Conversations) -> None:
    conversation = store.create("m\udcff", "default")
    store.add(conversation, "user", "a\udcffb")
    assert only_message(store, conversation).content == "a?b"


def test_a_worker_thread_may_use_the_store(store: Conversations) -> None:
    conversation = store.create("m", "default")

    def work() -> None:
        for number in range(50):
            store.add(conversation, "user", str(number))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.messages(conversation)) == 150


# Two copies, crashes


def test_a_reply_left_growing_is_interrupted_at_the_next_opening(path: Path) -> None:
    with contextlib.closing(Conversations(path)) as store:
        conversation = store.create("m", "default")
        plain = store.add(conversation, "assistant", "half a", status="growing")
        noted = store.add(conversation, "assistant", "half b", status="growing")
        ended = store.add(conversation, "assistant", "whole", status="growing")
        store.update(noted, note="slow disk")
        store.update(ended, status="done")
    with contextlib.closing(Conversations(path)) as store:
        messages = {message.id: message for message in store.messages(conversation)}
    assert (messages[plain].content, messages[plain].status) == ("half a", "interrupted")
    assert messages[plain].note == "the program ended while this was being written"
    assert (messages[noted].status, messages[noted].note) == ("interrupted", "slow disk")
    assert messages[ended].status == "done"


def test_a_reply_that_another_copy_is_writing_is_left_alone(path: Path, store: Conversations) -> None:
    conversation = store.create("m", "default")
    reply = store.add(conversation, "assistant", "half", status="growing")
    with contextlib.closing(Conversations(path)) as second:
        assert only_message(second, conversation).status == "growing"
        store.update(reply, content="half a reply")
        assert only_message(second, conversation).content == "half a reply"
        second.add(conversation, "user", "from the second copy")
    store.update(reply, content="a reply", status="done")
    assert [message.content for message in store.messages(conversation)] == ["a reply", "from the second copy"]


WRITER = """
import sys
from pathlib import Path
from colibri_tui.conversations import Conversations
store = Conversations(Path(sys.argv[1]))
conversation = store.create("m", "default")
reply = store.add(conversation, "assistant", "", status="growing")
text = ""
for number in range(int(sys.argv[2])):
    text += f"{number} "
    store.update(reply, content=text)
    print(number, flush=True)
store.update(reply, status="done")
store.close()
"""


def write(path: Path, updates: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(updates)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


def test_a_kill_costs_at_most_the_last_interval(path: Path) -> None:
    with contextlib.closing(Conversations(path)) as running:
        mine = running.create("m", "default")
        running.add(mine, "assistant", "mine", status="growing")
        for round_ in range(3):
            writer = write(path, 10**9)
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.02 * round_)
            with contextlib.closing(Conversations(path)) as second:
                assert second.messages(second.latest().id)[-1].status == "growing"
            writer.send_signal(signal.SIGKILL)
            told = writer.stdout.read().split()
            writer.wait()
            with contextlib.closing(Conversations(path)) as store:
                assert store.notices == ()
                message = only_message(store, store.latest().id)
                assert message.status == "interrupted"
                assert len(message.content.split()) - 1 in (len(told), len(told) + 1)
                assert only_message(store, mine).status == "growing"
    assert sorted(file.name for file in path.parent.iterdir()) == ["conversations.db", "conversations.db.lock"]


def test_two_processes_write_at_once(path: Path) -> None:
    writers = [write(path, 100) for _ in range(2)]
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    with contextlib.closing(Conversations(path)) as store:
        for summary in store.list():
            message = only_message(store, summary.id)
            assert message.status == "done"
            assert message.content.split() == [str(number) for number in range(100)]
        assert len(store.list()) == 2


# Damage, a full disk, other versions


def damaged(path: Path) -> list[Path]:
    return sorted(path.parent.glob("conversations.db.damaged-*[0-9]"))


@pytest.mark.parametrize("damage", ["text", "header", "page", "short"])
def test_a_damaged_database_is_moved_aside_never_deleted(path: Path, damage: str) -> None:
    with contextlib.closing(Conversations(path)) as store:
        for number in range(50):
            store.add(store.create("m", "default"), "user", f"{number} " * 100)
    data = bytearray(path.read_bytes())
    match damage:
        case "text":
            data[:] = b"this is a letter, not a database\n" * 50
        case "header":
            data[:16] = bytes(16)
        case "page":
            data[4096:12288] = b"\xa5" * 8192
        case "short":
            del data[len(data) // 2 :]
    path.write_bytes(data)
    with contextlib.closing(Conversations(path)) as store:
        (kept,) = damaged(path)
        assert store.notices == (f"{path}: damaged; kept as {kept.name}, a new one begins",)
        assert kept.read_bytes() == data
        assert store.list() == []
        store.create("m", "default")
    with contextlib.closing(Conversations(path)) as store:
        assert store.notices == ()
        assert len(store.list()) == 1
    assert len(damaged(path)) == 1


def test_an_empty_file_is_a_new_database(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with contextlib.closing(Conversations(path)) as store:
        assert store.notices == ()
        store.create("m", "default")


def test_a_full_disk_is_one_clear_error_and_the_store_stays_usable(store: Conversations) -> None:
    conversation = store.create("m", "default")
    reply = store.add(conversation, "assistant", "short", status="growing")
    connection = store._database._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"conversations\.db: the disk is full; free some space"):
        store.update(reply, content="x" * 100_000)
    assert only_message(store, conversation).content == "short"
    store.update(reply, content="still short")
    connection.execute("PRAGMA max_page_count = 1000000")
    store.update(reply, content="x" * 100_000, status="done")
    assert len(only_message(store, conversation).content) == 100_000


def test_a_real_write_that_does_not_fit_is_one_clear_error(path: Path) -> None:
    body = """
import resource, sys
from pathlib import Path
from colibri_tui.conversations import Conversations
from colibri_tui.database import StoreError
store = Conversations(Path(sys.argv[1]))
conversation = store.create("m", "default")
reply = store.add(conversation, "assistant", "short")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    store.update(reply, content="x" * 1_000_000)
except StoreError as error:
    assert "\\n" not in str(error), error
else:
    raise AssertionError("the write fitted")
assert store.messages(conversation)[0].content == "short"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.update(reply, content="longer")
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", body, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with contextlib.closing(Conversations(path)) as store:
        assert only_message(store, store.latest().id).content == "longer"


def test_a_branch_takes_the_reasoning_along(path: Path) -> None:
    with contextlib.closing(Conversations(path)) as store:
        first = store.create("m", "default")
        reply = store.add(first, "assistant", "It is")
        store.update(reply, thought=Thought("hm", 2.0, 7))
        assert [message.thought for message in store.messages(store.branch(first))] == [Thought("hm", 2.0, 7)]


FIRST_VERSION = """
    CREATE TABLE conversations (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, model TEXT NOT NULL,
        profile TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, conversation INTEGER NOT NULL, role TEXT NOT NULL,
        content TEXT NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', stats TEXT, writer TEXT,
        created REAL NOT NULL);
    CREATE TABLE drafts (conversation INTEGER UNIQUE, content TEXT NOT NULL);
    INSERT INTO conversations VALUES (1, 'old', 'm', 'default', 0, 0);
    INSERT INTO messages (conversation, role, content, status, created) VALUES
        (1, 'user', '<think>mine</think>', 'done', 0), (1, 'assistant', '<think>\nhm\n</think>\n\nIt is', 'done', 0),
        (1, 'assistant', '<think>cut', 'cut', 0), (1, 'assistant', 'plain', 'done', 0);
    PRAGMA user_version = 1;
"""


def test_reasoning_leaves_the_answers_of_an_older_database(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(FIRST_VERSION)
    with contextlib.closing(Conversations(path)) as store:
        said = [(message.content, message.thought.text) for message in store.messages(1)]
    assert said == [("<think>mine</think>", ""), ("It is", "\nhm\n"), ("<think>cut", ""), ("plain", "")]


def test_a_newer_or_foreign_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="a database of another program"):
        Conversations(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="a newer version of this program"):
        Conversations(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    assert damaged(path) == []


def test_a_place_that_cannot_hold_it_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"conversations\.db: cannot be opened"):
        Conversations(tmp_path / "file" / "conversations.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError):
        Conversations(tmp_path / "folder")


def test_a_closed_store_says_so(path: Path) -> None:
    store = Conversations(path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.list()


def test_figures_that_cannot_be_read_do_not_hide_the_reply(store: Conversations) -> None:
    conversation = store.create("m", "default")
    store.add(conversation, "assistant", "hello")
    for broken in ("{", "[1]"):
        store._database._connection.execute("UPDATE messages SET stats = ?", (broken,))
        assert only_message(store, conversation).stats is None


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes")
def test_only_the_owner_can_read_conversations(path: Path, store: Conversations) -> None:
    store.create("m", "default")
    for file in path.parent.glob("conversations.db*"):
        if file.suffix != ".lock" and file.suffix != ".running":
            assert file.stat().st_mode & 0o077 == 0, file


def test_a_line_around_what_was_found(tmp_path):
    store = Conversations(tmp_path / "c.db")
    number = store.create("model", "default", "A title")
    store.add(number, "user", "x" * 50 + " the NEEDLE\nstands here " + "y" * 200)
    assert store.list(search="needle")[0].found.startswith("…" + "x" * 19 + " the NEEDLE stands here y")
    assert store.list(search="title")[0].found == ""
    assert store.list()[0].found == ""
    store.close()


def test_settings_attachments_and_branches(tmp_path):
    store = Conversations(tmp_path / "c.db")
    number = store.create("model", "default", settings='{"seed": 1}')
    store.add(number, "user", "one", attachments="[]")
    store.add(number, "assistant", "half", "growing")
    store.configure(number, '{"seed": 2}')
    copy = store.branch(number)
    assert (store.get(copy).settings, store.get(copy).title) == ('{"seed": 2}', "one")
    assert [(m.content, m.attachments) for m in store.messages(copy)] == [("one", "[]")], "what grows stays where it is"
    assert store.get(99) is None
    for change in (lambda: store.configure(99, ""), lambda: store.branch(99)):
        with pytest.raises(StoreError, match="was deleted"):
            change()
    store.close()


def test_only_one_copy_is_in_a_conversation_and_a_dead_ones_are_free(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    first, second = Conversations(path), Conversations(path)
    one, other = first.create("m", "p"), first.create("m", "p")
    assert first.hold(one)
    assert first.hold(one), "again"
    assert not second.hold(one)
    assert second.hold(other)
    assert first.hold(None)
    assert second.hold(one), "it was left"
    assert first.hold(other), "so was this one"
    first.close()
    assert second.hold(other), "nobody is there any more"
    second.close()
