import pytest

from colibri_tui.conversations import Conversations
from colibri_tui.journal import Journal
from colibri_tui.session import (
    CUT,
    DONE,
    ERROR,
    REPLACED,
    STOPPED,
    WITHDRAWN,
    Prompt,
    Session,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def journal(tmp_path):
    journal = Journal(lambda: Conversations(tmp_path / "c.db"), pytest.fail)
    yield journal
    journal.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def session(journal, clock):
    return Session(journal, "model-1", "default", clock)


def stored(journal, session):
    number = session.conversation.result()
    return [(m.role, m.content, m.status) for m in journal.ask(lambda store: store.messages(number)).result()]


def answer(session, *parts, status=DONE):
    for part in parts:
        session.feed(part)
    return session.finish(status)


def test_a_turn_from_prompt_to_answer(session, journal):
    assert session.prompt(Prompt("hello")) == [{"role": "user", "content": "hello"}]
    assert not session.has_reply
    reply = answer(session, "hi", " there")
    assert (reply.content, reply.status) == ("hi there", DONE)
    assert stored(journal, session) == [("user", "hello", DONE), ("assistant", "hi there", DONE)]
    assert session.prompt(Prompt("more")) == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi there"},
        {"role": "user", "content": "more"},
    ]


def test_no_conversation_is_made_before_the_first_prompt(session, journal):
    assert session.conversation is None
    assert journal.ask(lambda store: store.list()).result() == []


def test_a_growing_reply_is_written_down_once_a_second(session, journal, clock):
    session.prompt(Prompt("hello"))
    session.feed("a")
    session.feed("b")
    assert stored(journal, session)[-1] == ("assistant", "a", "growing")
    clock.now = 1.0
    session.feed("c")
    session.feed("d")
    assert stored(journal, session)[-1] == ("assistant", "abc", "growing")


def thoughts(journal, session):
    number = session.conversation.result()
    stored = journal.ask(lambda store: store.messages(number)).result()[-1].thought
    return stored.text, stored.seconds, stored.tokens


def test_reasoning_is_kept_apart_from_the_answer(session, journal, clock):
    session.prompt(Prompt("hello"))
    session.feed("", "\nlet", 1)
    assert session.thinking
    clock.now = 2.0
    session.feed("", " me", 1)
    assert stored(journal, session)[-1] == ("assistant", "", "growing")
    assert thoughts(journal, session) == ("\nlet me", 2.0, 2)
    clock.now = 3.0
    session.feed("It", "", 1)
    assert not session.thinking
    clock.now = 9.0
    reply = answer(session, " is")
    assert (reply.content, reply.thought.text) == ("It is", "\nlet me")
    assert stored(journal, session)[-1] == ("assistant", "It is", DONE)
    assert thoughts(journal, session) == ("\nlet me", 3.0, 3)
    said = session.prompt(Prompt("more"))[1]
    assert said == {"role": "assistant", "content": "It is", "reasoning_content": "\nlet me"}


def test_an_answer_stopped_while_it_was_reasoning_goes_on_there(session, journal, clock):
    session.prompt(Prompt("hello"))
    session.feed("", "let", 1)
    clock.now = 2.0
    answer(session, status=STOPPED)
    assert thoughts(journal, session) == ("let", 2.0, 1)
    assert session.can_continue
    again = Session(journal, "model-1", "default", clock)
    again.load(1, journal.ask(lambda store: store.messages(1)).result())
    assert again.can_continue
    assert again.continue_reply()[-1] == {"role": "assistant", "content": "", "reasoning_content": "let"}
    again.feed("", " me", 1)
    clock.now = 5.0
    again.feed("It is", "", 0)
    again.finish(DONE)
    assert thoughts(journal, again) == ("let me", 5.0, 2)
    assert stored(journal, again)[-1] == ("assistant", "It is", DONE)


def test_blank_reasoning_is_none(session):
    session.prompt(Prompt("hello"))
    session.feed("", "\n\n", 1)
    answer(session, "It is")
    assert session.prompt(Prompt("more"))[1] == {"role": "assistant", "content": "It is"}


def test_a_prompt_stopped_before_its_answer_comes_back(session, journal):
    session.prompt(Prompt("hello"))
    assert session.withdraw() == "hello"
    assert session.messages == []
    assert stored(journal, session) == [("user", "hello", WITHDRAWN)]
    assert journal.ask(lambda store: store.prompt_history()).result() == ["hello"]


@pytest.mark.parametrize("status", [CUT, STOPPED, ERROR])
def test_a_cut_reply_is_continued_in_place(session, journal, status):
    session.prompt(Prompt("hello"))
    answer(session, "one", status=status)
    assert session.can_continue
    assert session.continue_reply()[-1] == {"role": "assistant", "content": "one"}
    assert session.has_reply
    assert not session.can_continue
    answer(session, " two")
    assert stored(journal, session) == [("user", "hello", DONE), ("assistant", "one two", DONE)]


def test_a_whole_reply_is_not_continued(session):
    assert not session.can_continue
    session.prompt(Prompt("hello"))
    assert not session.can_continue
    answer(session, "hi")
    assert not session.can_continue


def test_regenerating_keeps_the_old_reply_aside(session, journal):
    assert not session.can_regenerate
    session.prompt(Prompt("hello"))
    answer(session, "bad")
    assert session.can_regenerate
    assert session.regenerate() == [{"role": "user", "content": "hello"}]
    answer(session, "good")
    assert [m.content for m in session.messages] == ["hello", "good"]
    assert ("assistant", "bad", REPLACED) in stored(journal, session)


def test_regenerating_stopped_at_once_leaves_the_old_reply(session, journal):
    session.prompt(Prompt("hello"))
    answer(session, "good", status=CUT)
    session.regenerate()
    assert session.withdraw() == ""
    assert [(m.content, m.status) for m in session.messages] == [("hello", DONE), ("good", CUT)]
    assert stored(journal, session) == [("user", "hello", DONE), ("assistant", "good", CUT)]


def test_coming_back_leaves_out_what_was_put_aside(session, journal):
    session.prompt(Prompt("hello"))
    answer(session, "bad")
    session.regenerate()
    answer(session, "good")
    session.prompt(Prompt("never"))
    session.withdraw()
    number = session.conversation.result()
    again = Session(journal, "model-1", "default")
    left = again.load(number, journal.ask(lambda store: store.messages(number)).result())
    assert left == ""
    assert [m.content for m in again.messages] == ["hello", "good"]


def test_a_prompt_cut_off_by_the_end_of_the_program_comes_back(session, journal):
    session.prompt(Prompt("hello"))
    answer(session, "hi")
    session.prompt(Prompt("what was I asking"))
    number = session.conversation.result()
    again = Session(journal, "model-1", "default")
    left = again.load(number, journal.ask(lambda store: store.messages(number)).result())
    assert left == "what was I asking"
    assert [m.content for m in again.messages] == ["hello", "hi"]


def test_roles_alternate_for_the_engine(session):
    session.prompt(Prompt("one"))
    session.running = None
    assert session.prompt(Prompt("two")) == [{"role": "user", "content": "one\n\ntwo"}]


def test_misuse_is_an_error(session):
    with pytest.raises(ValueError, match="no turn"):
        session.feed("x")
    session.prompt(Prompt("hello"))
    with pytest.raises(ValueError, match="withdrawn"):
        session.finish(DONE)
