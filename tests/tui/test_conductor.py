"""The rules of a conversation, without processes and without a screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colibri_tui.engine_link import (
    EngineError,
    EngineLoading,
    EngineNotice,
    EnginePrefill,
    LinkState,
)
from colibri_tui.turns import CHOOSE, NO_WORDS, QUIT, RESTART, RESTART_SMALLER
from colibri_tui.widgets.status_line import Stage
from tests.tui.scripted_link import TURN
from tests.tui.staging import Play, arrive


async def test_a_prompt_sent_before_the_stored_draft_was_read_is_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    stage = Play(tmp_path)
    stage.journal.set_draft(None, "of yesterday")
    stage.conductor.open(stage.folder)
    stage.ready()
    stage.conductor.submit("hello")
    stage.conductor.keep_draft("of today")
    await arrive(stage)
    assert stage.view.draft == "of yesterday"
    assert stage.view.lines == ["hello", ""]
    assert stage.journal.ask(lambda store: store.get_draft(None)).result() == ""
    row = stage.conductor.session.conversation.result()
    assert stage.journal.ask(lambda store: store.get_draft(row)).result() == "of today"
    stage.journal.close()


@pytest.mark.parametrize(("draft", "kept"), [("", "of yesterday"), ("of today", "of today")])
def test_closing_before_the_stored_draft_was_read_keeps_it_unless_there_is_a_newer(tmp_path, monkeypatch, draft, kept):
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    stage = Play(tmp_path)
    stage.journal.set_draft(None, "of yesterday")
    stage.conductor.open(stage.folder)
    stage.conductor.close(draft)
    assert stage.journal.ask(lambda store: store.get_draft(None)).result() == kept
    stage.journal.close()


class TestATurn:
    def test_from_prompt_to_answer(self, stage):
        stage.conductor.submit("hello")
        assert stage.view.running
        assert stage.conductor.status.stage is Stage.PROMPT
        stage.hear(EnginePrefill(1, 3, 9))
        assert stage.view.progress == "reading the prompt 3/9"
        assert stage.conductor.status.detail == "3/9"
        stage.text("hi")
        assert stage.conductor.status.stage is Stage.ANSWERING
        stage.done()
        assert stage.view.lines == ["hello", "hi"]
        assert stage.view.ended == [("done", "")]
        assert stage.view.turns == [replace(TURN, stop="eos")]
        assert stage.conductor.status.stage is Stage.READY
        assert stage.conductor.status.tok_s == 3.0
        assert stage.stored() == [("user", "hello", "done"), ("assistant", "hi", "done")]

    def test_figures_are_kept_with_the_answer(self, stage):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        row = stage.conductor.session.messages[-1].row.result()
        kept = stage.journal.ask(lambda store: store.messages(stage.conductor.session.conversation.result())).result()
        assert {message.id: message for message in kept}[row].stats["hits"] == {"pin": 1, "cache": 1, "disk": 1}

    def test_an_answer_without_a_word_is_said_to_be_one(self, stage):
        stage.conductor.submit("hello")
        stage.done(text="")
        assert stage.view.ended == [("done", NO_WORDS)]

    @pytest.mark.parametrize(("stop", "status"), [("length", "cut"), ("user", "stopped")])
    def test_a_cut_answer_can_be_continued(self, stage, stop, status):
        stage.conductor.submit("hello")
        stage.text("one")
        stage.done(stop)
        assert stage.view.ended[0][0] == status
        assert stage.view.ended[0][1]
        stage.conductor.more()
        assert stage.link.asked[-1] == (
            [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "one"}],
            True,
        )
        stage.text(" two")
        stage.done()
        assert stage.view.lines == ["hello", "one two"]

    def test_a_whole_answer_is_not_continued(self, stage):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        stage.conductor.more()
        assert len(stage.link.asked) == 1
        assert stage.view.told[-1][0] == "There is no answer to continue."

    def test_regenerating(self, stage):
        stage.conductor.regenerate()
        assert stage.view.told[-1][0] == "There is no answer to regenerate."
        stage.conductor.submit("hello")
        stage.text("bad")
        stage.done()
        stage.conductor.regenerate()
        assert stage.link.asked[-1] == ([{"role": "user", "content": "hello"}], False)
        stage.text("good")
        stage.done()
        assert stage.view.lines == ["hello", "good"]

    def test_regenerating_stopped_at_once_brings_the_old_answer_back(self, stage):
        stage.conductor.submit("hello")
        stage.text("good")
        stage.done()
        stage.conductor.regenerate()
        stage.conductor.stop()
        assert stage.view.lines == ["hello", "good"]
        assert stage.view.composer == []


class TestStopping:
    def test_before_the_first_token_the_prompt_comes_back(self, stage):
        stage.conductor.submit("hello")
        stage.conductor.stop()
        assert stage.link.stops == 1
        assert stage.view.composer == ["hello"]
        assert stage.view.lines == []
        assert not stage.view.running
        assert stage.conductor.status.stage is Stage.STOPPING
        stage.text("late")
        stage.done("user")
        assert stage.view.lines == []
        assert stage.conductor.status.stage is Stage.READY

    def test_later_the_answer_stays(self, stage):
        stage.conductor.submit("hello")
        stage.text("one")
        stage.conductor.stop()
        assert stage.conductor.status.stage is Stage.STOPPING
        stage.text(" two")
        stage.done("user")
        assert stage.view.lines == ["hello", "one two"]
        assert stage.view.composer == []

    def test_a_stop_that_overtakes_the_first_token(self, stage):
        stage.conductor.submit("hello")
        stage.done("user", text="")
        assert stage.view.composer == ["hello"]

    def test_what_is_queued_comes_back_too(self, stage):
        stage.conductor.submit("one")
        stage.text("x")
        stage.conductor.submit("two")
        stage.conductor.submit("three")
        stage.conductor.stop()
        stage.done("user")
        assert stage.view.composer == ["two\n\nthree"]
        assert len(stage.link.asked) == 1

    def test_when_idle_nothing_happens(self, stage):
        stage.conductor.stop()
        assert stage.link.stops == 0


class TestTheQueue:
    def test_a_prompt_while_loading_is_sent_when_the_model_is_ready(self, opened):
        opened.conductor.submit("hello")
        assert opened.conductor.status.queued == 1
        assert opened.link.asked == []
        opened.ready()
        assert opened.link.asked[0][0] == [{"role": "user", "content": "hello"}]
        assert opened.conductor.status.queued == 0

    def test_what_waits_is_kept_as_a_draft_until_it_is_sent(self, opened):
        def kept(conversation):
            return opened.journal.ask(lambda store: store.get_draft(conversation)).result()

        opened.conductor.submit("one")
        opened.conductor.submit("two")
        opened.conductor.keep_draft("three")
        assert kept(None) == "one\n\ntwo\n\nthree"
        opened.ready()
        assert kept(None) == ""
        assert kept(opened.conductor.session.conversation.result()) == "two\n\nthree"
        opened.text("x")
        opened.done()
        assert kept(opened.conductor.session.conversation.result()) == "three"

    def test_prompts_while_answering_follow_in_order(self, stage):
        for prompt in ("one", "two", "three"):
            stage.conductor.submit(prompt)
        for n in range(3):
            stage.text(f"answer {n}")
            stage.done()
        assert stage.view.lines == ["one", "answer 0", "two", "answer 1", "three", "answer 2"]

    def test_a_refused_model_gives_them_back(self, opened):
        opened.conductor.submit("hello")
        opened.link.state = LinkState.DEAD
        opened.hear(EngineError(0, "no tensor x", fatal=True))
        assert opened.view.composer == ["hello"]
        assert opened.view.told[-1] == ("no tensor x", "error", (CHOOSE, QUIT))
        assert opened.conductor.status.stage is Stage.REFUSED


class TestMisfortune:
    def test_a_refused_prompt_comes_back_with_the_reason(self, stage):
        stage.conductor.submit("hello")
        stage.refuse("the prompt has 900 tokens, the context window 100: shorten it")
        assert stage.view.composer == ["hello"]
        assert stage.view.lines == []
        assert stage.view.told[-1][0].startswith("the prompt has 900 tokens")
        assert stage.conductor.status.stage is Stage.READY

    def test_a_failed_read_keeps_what_there_is_of_the_answer(self, stage):
        stage.conductor.submit("hello")
        stage.text("half")
        stage.refuse("model-2.safetensors: read failed")
        assert stage.view.ended == [("error", "")]
        assert stage.stored()[-1] == ("assistant", "half", "error")
        assert stage.conductor.session.can_continue

    def test_death_keeps_the_answer_and_offers_a_way_on(self, stage):
        stage.conductor.submit("hello")
        stage.text("half")
        stage.die()
        assert stage.view.ended == [("interrupted", "")]
        assert stage.view.told[-1] == ("killed by signal 9", "error", (RESTART, RESTART_SMALLER, QUIT))
        assert stage.conductor.status.stage is Stage.DIED

    def test_death_before_the_first_token_gives_the_prompt_back(self, stage):
        stage.conductor.submit("hello")
        stage.die()
        assert stage.view.composer == ["hello"]

    def test_a_prompt_wakes_a_dead_engine(self, stage):
        stage.die()
        stage.conductor.submit("hello")
        assert len(stage.link.started) == 2
        stage.ready()
        assert stage.link.asked[-1][0][-1]["content"] == "hello"

    def test_restarting_smaller_asks_for_less_each_time(self, stage):
        stage.die()
        stage.conductor.restart(smaller=True)
        stage.die()
        stage.conductor.restart(smaller=True)
        assert [options.ram for _, options in stage.link.started[1:]] == [3.0, 2.25]
        assert "3.0 GB" in stage.view.told[-3][0]

    def test_a_model_that_has_gone_is_told(self, stage):
        (stage.folder / "config.json").unlink()
        stage.conductor.restart()
        assert len(stage.link.started) == 1
        assert "no config.json" in stage.view.told[-1][0]

    def test_an_engine_that_died_this_moment_gives_the_prompt_back(self, stage):
        stage.link.broken = True
        stage.conductor.submit("hello")
        assert stage.view.composer == ["hello"]
        assert not stage.view.running
        assert stage.view.told[-1][:2] == ("the engine cannot answer now: it is dead", "error")

    def test_messages_of_an_answer_that_was_given_up_count_no_more(self, stage):
        stage.conductor.submit("hello")
        stage.conductor.new()
        stage.text("late")
        stage.hear(EnginePrefill(1, 3, 9))
        assert stage.view.lines == []
        assert stage.view.progress == ""

    def test_a_turn_that_nobody_waits_for_leaves_the_engine_ready(self, stage):
        stage.conductor.submit("one")
        stage.conductor.new()
        stage.conductor.submit("two")
        stage.done("user", text="")
        assert stage.link.asked[-1][0] == [{"role": "user", "content": "two"}]


class TestModelsAndProfiles:
    def test_what_is_no_model_is_told_and_changes_nothing(self, stage, tmp_path):
        assert not stage.conductor.open(tmp_path / "nothing")
        assert stage.view.told[-1][1:] == ("error", (CHOOSE,))
        assert stage.conductor.model.folder == stage.folder

    def test_without_a_model_a_prompt_comes_back(self, tmp_path, monkeypatch):
        monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
        stage = Play(tmp_path)
        stage.conductor.submit("hello")
        assert stage.view.composer == ["hello"]
        assert stage.view.told == [("There is no model yet.", "warning", (CHOOSE,))]
        stage.journal.close()

    def test_the_history_is_the_profiles(self, stage):
        stage.conductor.use_profile("coding")
        assert "default" in stage.link.started[0][1].history
        assert "coding" in stage.conductor.model.options.history
        assert stage.conductor.status.profile == "coding"
        assert "Profile coding" in stage.view.told[-1][0]

    def test_a_bad_profile_is_refused(self, stage):
        stage.conductor.use_profile("../up")
        assert len(stage.link.started) == 1
        assert stage.view.told[-1][1] == "warning"

    def test_the_conversation_outlives_a_change_of_profile(self, stage):
        stage.conductor.submit("hello")
        stage.text("hi")
        stage.done()
        stage.conductor.use_profile("coding")
        stage.ready()
        stage.conductor.submit("more")
        assert len(stage.link.asked[-1][0]) == 3

    def test_loading_is_told_in_words(self, opened):
        assert opened.conductor.progress == ("starting the engine", 0, 0)
        opened.hear(EngineLoading(0, "compiling kernels", 5, 23))
        assert opened.conductor.progress == ("compiling kernels", 5, 23)
        assert opened.conductor.status.detail == "", "the line with the bar says it"
        opened.ready()
        assert opened.conductor.progress is None

    def test_notices_are_passed_on(self, stage):
        stage.hear(EngineNotice(0, "buffered reads"))
        assert stage.view.told[-1][0] == "buffered reads"
