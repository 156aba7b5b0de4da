"""Flows through the whole application, the engine's process included."""

import signal

import psutil
import pytest
from textual.widgets._toast import Toast

from colibri_tui import paths
from colibri_tui.conversations import Conversations
from colibri_tui.screens.profiles import ProfilesScreen
from colibri_tui.settings import read_state
from colibri_tui.widgets.loading import Loading
from colibri_tui.widgets.queue_view import QueueView
from colibri_tui.widgets.status_line import Stage
from colibri_tui.widgets.transcript import Transcript
from tests.tui.screens.conftest import chat, on_screen, ready, said, send, stage, until

SHORT = "A short answer."
SIZE = (120, 40)


def stored() -> list[tuple[str, str, str]]:
    store = Conversations(paths.database_path())
    try:
        latest = store.latest()
        return [(m.role, m.content, m.status) for m in store.messages(latest.id)] if latest else []
    finally:
        store.close()


def plain(widget) -> str:
    return "\n".join(strip.text for strip in widget.render_lines(widget.size.region))


async def test_a_message_is_answered_shown_and_stored(start):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: SHORT in said(app))
        await ready(app)
        status = chat(app).status.status
        assert status.tok_s > 0
        assert status.ttft_s >= 0
        assert 0 < status.context_used < status.context == 4096
        assert "this answer" in plain(chat(app).side.pane("tiers")._body)
        assert chat(app).focused is chat(app).composer
    assert stored() == [("user", "hello", "done"), ("assistant", SHORT, "done")]


async def test_what_is_written_while_the_model_loads_waits_dimmed(start):
    app = start(reply=SHORT, load_s=0.6)
    async with app.run_test(size=SIZE) as pilot:
        await until(lambda: "reading the dense part" in plain(app.screen.query_one(Loading)))
        assert stage(app) is Stage.LOADING
        await send(pilot, "hello")
        await until(lambda: "queued: hello" in plain(app.screen.query_one(QueueView)))
        await until(lambda: SHORT in said(app))
        assert not app.screen.query_one(QueueView).display
        assert not app.screen.query_one(Loading).display


async def test_escape_before_the_first_token_gives_the_prompt_back(start):
    app = start(reply=SHORT, prefill_s=30.0)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: stage(app) is Stage.PROMPT)
        await pilot.press("escape")
        assert chat(app).composer.text == "hello"
        await ready(app)
        assert "hello" not in said(app)
    assert stored() == [("user", "hello", "withdrawn")]


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_stopped_answer_stays_and_can_be_continued(start, key):
    app = start(reply="word " * 400, token_s=0.01)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: chat(app).transcript.last_answer())
        await pilot.press(key)
        await ready(app)
        first = chat(app).transcript.last_answer()
        assert 0 < first.count("word") < 400
        await pilot.press("alt+m")
        await until(lambda: len(chat(app).transcript.last_answer()) > len(first) + 20)
        assert chat(app).transcript.last_answer().startswith(first.rstrip())
        await pilot.press(key)
        await ready(app)
    assert [status for _, _, status in stored()] == ["done", "stopped"]


async def test_control_c_clears_the_draft_and_twice_quits(start):
    app = start()
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await pilot.press(*"draft")
        await pilot.press("ctrl+c")
        assert chat(app).composer.text == ""
        assert app.is_running
        await pilot.press("ctrl+z")
        assert chat(app).composer.text == "draft", "clearing can be undone"
        await pilot.press("ctrl+c")
        assert app.is_running, "what was written since is cleared first"
        assert chat(app).composer.text == ""
        await pilot.press("ctrl+c")
        await until(lambda: app._exit)


async def test_a_toast_shows_what_was_typed_and_hides_nothing_that_is_being_written(start):
    app = start()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(app)
        await send(pilot, "/copy [/b]")
        await until(lambda: app.screen.query(Toast))
        await pilot.pause()
        toast = app.screen.query_one(Toast)
        assert "[/b]" in str(toast.render())
        assert not toast.region.overlaps(chat(app).composer.region)


async def test_slash_and_colon_commands(start):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: SHORT in said(app))
        await ready(app)
        await send(pilot, "/regne")
        assert "did you mean /regen?" in said(app)[-1]
        assert chat(app).composer.text == "/regne"
        await send(pilot, "/regen")
        await until(
            lambda: not chat(app).conductor.answering and chat(app).conductor.session.messages[-1].status == "done"
        )
        await send(pilot, "/plan")
        assert "Memory plan" in said(app)[-1]
        await send(pilot, ":reset")
        assert said(app) == []
        await send(pilot, "/profile")
        assert isinstance(app.screen, ProfilesScreen)
        await pilot.press("escape")
        await send(pilot, ":q")
        await until(lambda: app._exit)


async def test_quitting_loses_nothing(start):
    app = start(reply="word " * 400, token_s=0.02)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: chat(app).transcript.last_answer().count("word") > 3)
        await send(pilot, "queued")
        await pilot.press(*"draft", "ctrl+q")
        await until(lambda: app._exit)
    assert stored()[-1][2] == "stopped"
    assert stored()[-1][1].count("word") > 3
    again = start(reply=SHORT)
    async with again.run_test(size=SIZE):
        await until(lambda: chat(again).composer.text == "queued\n\ndraft")


async def test_the_last_conversation_and_its_draft_come_back(start):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: SHORT in said(app))
        await ready(app)
        await pilot.press(*"unsent")
        await until(lambda: chat(app).composer._posted == "unsent")
    again = start(reply=SHORT)
    async with again.run_test(size=SIZE) as pilot:
        await until(lambda: "hello" in said(again))
        assert any("Back in “hello”" in line for line in said(again))
        assert chat(again).composer.text == "unsent"
        chat(again).composer.draft = ""
        await pilot.press("up")
        assert chat(again).composer.text == "hello", "prompts of earlier runs are in the history"
        await pilot.press("ctrl+n")
        assert "hello" not in said(again)


async def test_a_killed_engine_is_explained_and_started_again(start):
    app = start(reply="word " * 400, token_s=0.01)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: chat(app).transcript.last_answer())
        child = next(p for p in psutil.Process().children() if "worker_host" in " ".join(p.cmdline()))
        child.send_signal(signal.SIGKILL)
        await until(lambda: stage(app) is Stage.DIED)
        notice = said(app)[-1]
        assert "killed" in notice.lower() or "signal 9" in notice
        assert "word" in chat(app).transcript.last_answer()
        chat(app).post_message(Transcript.Action("restart_smaller"))
        await until(lambda: stage(app) is Stage.LOADING)
        await ready(app)
        assert chat(app).conductor.model.ready.plan.budget == 3 * 10**9
        await send(pilot, "again")
        await until(lambda: stage(app) is Stage.ANSWERING)
        await pilot.press("escape")
        await ready(app)


async def test_a_prompt_wakes_a_dead_engine(start):
    app = start(reply=SHORT, crash="kill", crash_at=2)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: stage(app) is Stage.DIED)
        await send(pilot, "again")
        await until(lambda: stage(app) is not Stage.DIED)
        await until(lambda: "again" in said(app))


async def test_a_refused_model_leaves_a_usable_application(start):
    app = start(refuse="model.safetensors: tensor x is missing; download it again")
    async with app.run_test(size=SIZE) as pilot:
        await until(lambda: stage(app) is Stage.REFUSED)
        assert said(app)[-1].startswith("model.safetensors: tensor x is missing")
        await pilot.press(*"typing")
        assert chat(app).composer.text == "typing"


async def test_a_failed_read_is_one_line(start):
    app = start(reply="word " * 40, turn_error="layer 3: read failed: model moved", turn_error_at=3)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: any("read failed" in line for line in said(app)))
        await ready(app)
        assert chat(app).transcript.last_answer().split() == ["word"] * 3
    assert stored()[-1][2] == "error"


async def test_a_prompt_over_the_context_comes_back_with_the_numbers(start, monkeypatch):
    monkeypatch.setattr("colibri_tui.screens.habits.COUNT_SECONDS", 0)  # nobody counts: it is for the engine to refuse
    app = start(context=64)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        prompt = "word " * 100
        await send(pilot, prompt)
        await until(lambda: any("context window 64" in line for line in said(app)))
        assert chat(app).composer.text == prompt
        await ready(app)


async def test_another_profile_is_learned_into_without_a_restart_and_remembered(start):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "/profile coding")
        await until(lambda: "learning into coding" in said(app))
        assert any("Profile coding" in line for line in said(app))
        assert stage(app) is Stage.READY
        await send(pilot, "/restart")
        await until(lambda: stage(app) is Stage.LOADING)
        await ready(app)
        assert "/coding/" in chat(app)._engine.options.history
        await until(lambda: read_state(paths.state_path()).profile == "coding")
    assert read_state(paths.state_path()).model.endswith("fake-moe")


async def test_lossy_options_are_labelled(start):
    app = start(flags={"topp": 0.75})
    async with app.run_test(size=SIZE):
        await ready(app)
        assert "lossy: --topp 0.75" in plain(chat(app).status)


async def test_nothing_from_outside_reaches_the_terminal_raw(start):
    app = start(refuse="\x1b[31mred\x07 \x9b31m")
    async with app.run_test(size=SIZE):
        await until(lambda: stage(app) is Stage.REFUSED)
        await until(lambda: "red" in on_screen(app))
        assert not any(ord(c) < 32 and c != "\n" for c in on_screen(app))
        assert "\x9b" not in on_screen(app)


async def test_the_engine_is_closed_in_order(start, tmp_path):
    app = start()
    async with app.run_test(size=SIZE):
        await ready(app)
        engine = chat(app)._engine
    assert engine.join(10)
    assert (tmp_path / "fake-moe" / "fake.log").read_text() == "closed\n"
