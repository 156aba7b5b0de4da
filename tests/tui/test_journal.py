import threading

import pytest

from colibri_tui.conversations import Conversations
from colibri_tui.database import StoreError
from colibri_tui.journal import Journal, known


@pytest.fixture
def reports():
    return []


@pytest.fixture
def journal(tmp_path, reports):
    journal = Journal(lambda: Conversations(tmp_path / "c.db"), reports.append)
    yield journal
    journal.close()


def test_a_reply_can_grow_before_its_row_exists(journal, reports):
    conversation = journal.create("model", "default")
    journal.add(conversation, "user", "hello")
    reply = journal.add(conversation, "assistant", "", "growing")
    journal.update(reply, content="hi", status="done")
    stored = journal.ask(lambda store: store.messages(conversation.result())).result()
    assert [(m.role, m.content, m.status) for m in stored] == [
        ("user", "hello", "done"),
        ("assistant", "hi", "done"),
    ]
    assert reports == []


def test_orders_return_at_once_and_keep_their_order(tmp_path, reports):
    gate = threading.Event()

    def slowly() -> Conversations:
        gate.wait()
        return Conversations(tmp_path / "c.db")

    journal = Journal(slowly, reports.append)
    conversation = journal.create("model", "default")
    row = journal.add(conversation, "user", "one")
    journal.update(row, content="two")
    assert row.number is None
    gate.set()
    journal.close()
    store = Conversations(tmp_path / "c.db")
    assert [m.content for m in store.messages(conversation.result())] == ["two"]
    store.close()


def test_a_failure_is_told_when_it_begins_and_not_again_while_it_lasts(journal, reports):
    for _ in range(3):
        journal.update(known(99), content="x")
    journal.create("model", "default")
    journal.update(known(99), content="x")
    journal.ask(lambda store: None).result()
    assert len(reports) == 2
    assert "message 99" in reports[0]


def test_a_store_that_cannot_be_opened_is_told_and_the_rest_goes_on(reports):
    def broken() -> Conversations:
        raise StoreError("no room")

    journal = Journal(broken, reports.append)
    row = journal.add(journal.create("model", "default"), "user", "hello")
    with pytest.raises(StoreError):
        journal.ask(lambda store: store.list()).result()
    journal.close()
    with pytest.raises(StoreError):
        row.result()
    assert reports == ["conversations are not being saved: no room"]


def test_drafts_of_a_conversation_and_of_none(journal):
    conversation = journal.create("model", "default")
    journal.set_draft(conversation, "later")
    journal.set_draft(None, "nowhere")
    drafts = journal.ask(lambda s: (s.get_draft(conversation.result()), s.get_draft(None))).result()
    assert drafts == ("later", "nowhere")


def test_what_the_opening_has_to_say_is_passed_on(tmp_path, reports):
    (tmp_path / "c.db").write_bytes(b"not a database at all" * 100)
    Journal(lambda: Conversations(tmp_path / "c.db"), reports.append).close()
    assert len(reports) == 1


def test_what_comes_after_the_end_fails_quietly(tmp_path, reports):
    journal = Journal(lambda: Conversations(tmp_path / "c.db"), reports.append)
    journal.close()
    journal.set_draft(None, "late")
    with pytest.raises(StoreError, match="program ends"):
        journal.ask(lambda store: store.list()).result()
    assert reports == []


def test_a_row_keeps_only_its_number_once_it_is_known(tmp_path):
    journal = Journal(lambda: Conversations(tmp_path / "c.db"), lambda line: None)
    conversation = journal.create("model", "default")
    message = journal.add(conversation, "user", "hello")
    assert journal.ask(lambda store: store.messages(conversation.result())).result()[0].id == message.result()
    assert (conversation.number, message.number) == (conversation.result(), message.result())
    assert message._coming is None
    journal.close()
    late = journal.add(conversation, "user", "too late")
    assert late.number is None
    with pytest.raises(StoreError):
        late.result()
