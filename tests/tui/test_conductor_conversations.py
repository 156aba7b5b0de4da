"""Which conversation is shown, and what is told of reasoning."""

from __future__ import annotations

import asyncio

import pytest

from colibri_tui.engine_link import (
    EngineText,
)
from colibri_tui.widgets.status_line import Stage
from tests.tui.staging import Play, arrive


class TestConversations:
    async def test_the_last_one_of_the_model_comes_back(self, stage):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        stage.journal.set_draft(stage.conductor.session.conversation, "unsent")
        stage.conductor.open(stage.folder)
        assert stage.view.lines == []
        await arrive(stage)
        assert stage.view.lines == ["hello", "hi"]
        assert stage.view.draft == "unsent"
        assert "Back in “hello”" in stage.view.told[-1][0]

    async def test_a_prompt_typed_meanwhile_joins_it(self, stage):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        stage.conductor.open(stage.folder)
        stage.conductor.submit("again")
        stage.ready()
        assert len(stage.link.asked) == 1, "the conversation is still on its way"
        await arrive(stage)
        assert [m["content"] for m in stage.link.asked[-1][0]] == ["hello", "hi", "again"]

    async def test_nothing_comes_back_to_a_program_that_ends(self, stage):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        stage.conductor.open(stage.folder)
        stage.view.gone = True
        with pytest.raises(asyncio.CancelledError):
            await arrive(stage)
        stage.ready()
        assert stage.view.lines == []
        assert stage.conductor.status.stage is Stage.LOADING

    async def test_a_first_start_has_none(self, opened):
        await arrive(opened)
        assert opened.view.lines == []
        assert opened.view.told == []

    async def test_a_draft_without_a_conversation_comes_back(self, opened):
        opened.journal.set_draft(None, "unsent")
        await arrive(opened)
        assert opened.view.draft == "unsent"
        opened.ready()
        opened.conductor.submit("unsent")
        assert opened.journal.ask(lambda store: store.get_draft(None)).result() == ""

    async def test_resuming_another_ends_this_one_properly(self, stage):
        stage.conductor.submit("one")
        stage.text("first")
        stage.done()
        first = (await stage.conductor.ask(lambda store: store.list()))[0]
        stage.conductor.new()
        stage.conductor.submit("two")
        stage.text("half")
        await stage.conductor.resume(first)
        assert stage.view.lines == ["one", "first"]
        assert stage.view.ended[-1][0] == "stopped"

    async def test_one_held_with_another_model_is_said_to_be(self, stage):
        row = stage.journal.create("other-12345678", "default")
        stage.journal.add(row, "user", "hello")
        stage.journal.add(row, "assistant", "hi")
        found = (await stage.conductor.ask(lambda store: store.list()))[0]
        await stage.conductor.resume(found)
        assert "held with another model" in stage.view.told[-1][0]

    async def test_deleting_the_one_shown_begins_a_new_one(self, stage):
        stage.conductor.submit("one")
        stage.text("first")
        stage.done()
        number = stage.conductor.session.conversation.result()
        stage.conductor.forget(number + 1)
        assert stage.view.lines == ["one", "first"]
        stage.conductor.forget(number)
        assert stage.view.lines == []
        assert stage.conductor.session.conversation is None


def test_reasoning_is_shown_apart_and_says_how_long_it_takes(opened):
    opened.ready()
    opened.conductor.submit("hello")
    opened.hear(EngineText(1, "", 1, "\n", 1))
    assert opened.view.thoughts == []
    opened.hear(EngineText(1, "", 2, "let me", 2))
    assert opened.view.thoughts[0] == "let me"
    assert opened.view.thoughts[1].startswith("thinking")
    opened.hear(EngineText(1, "It is", 1))
    assert opened.view.thoughts[-1].startswith("thought for")
    assert opened.view.lines[-1] == "It is"
    opened.done(text="It is")
    assert opened.view.ended == [("done", "")]


def test_reasoning_without_an_answer_says_so(opened):
    opened.ready()
    opened.conductor.submit("hello")
    opened.hear(EngineText(1, "", 1, "let me", 1))
    opened.done(text="")
    assert opened.view.thoughts[-1].startswith("thought for")
    assert opened.view.ended == [("done", "the model ended after its reasoning, without an answer")]
    assert opened.stored() == [("user", "hello", "done"), ("assistant", "", "done")]


class TestTwoCopies:
    """The same person's second window, with the same store of conversations."""

    async def said(self, stage, tmp_path):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        number = stage.conductor.session.conversation.result()
        await stage.conductor.ask(lambda store: None)  # all is written
        (tmp_path / "second").mkdir()
        second = Play(tmp_path / "second", tmp_path / "c.db")
        second.conductor.open(second.folder)
        second.conductor.session.model = stage.conductor.session.model
        return second, number

    async def test_the_second_begins_a_new_conversation_and_says_so(self, stage, tmp_path):
        second, number = await self.said(stage, tmp_path)
        await arrive(second)
        assert second.view.lines == []
        assert "“hello” is open in another window; this is a new conversation." in second.view.told[-1][0]
        second.ready()
        second.conductor.submit("mine")
        assert second.conductor.session.conversation.result() != number
        second.journal.close()

    async def test_what_is_chosen_all_the_same_goes_on_in_a_copy(self, stage, tmp_path):
        second, number = await self.said(stage, tmp_path)
        await second.conductor.resume(await second.conductor.ask(lambda store: store.get(number)))
        assert second.view.lines == ["hello", "hi"]
        assert "open in another window; this is a copy of it." in second.view.told[-1][0]
        assert second.conductor.session.conversation.result() != number
        second.journal.close()

    async def test_what_was_left_can_be_taken_up_elsewhere(self, stage, tmp_path):
        second, number = await self.said(stage, tmp_path)
        stage.conductor.new()
        stage.conductor.session.conversation = None
        await stage.conductor.ask(lambda store: None)
        await arrive(second)
        assert second.view.lines == ["hello", "hi"]
        assert second.conductor.session.conversation.result() == number
        second.journal.close()
