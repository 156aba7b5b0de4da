"""What the engine remembers of a conversation outlives the program, a restart, and ends with the conversation."""

from __future__ import annotations

from pathlib import Path

from colibri_tui import paths
from tests.tui.screens.conftest import chat, ready, said, send, stage, until

SIZE = (100, 34)
SHORT = "Yes."


def kept() -> list[Path]:
    """The files there are."""
    return sorted(paths.kept_dir().glob("*/*.state"))


async def talk(app, pilot, prompt: str = "hello") -> None:
    await ready(app)
    await send(pilot, prompt)
    await until(lambda: said(app)[-1] == SHORT and not chat(app).conductor.answering)


async def test_quitting_keeps_the_context_and_the_next_start_takes_it_up(start):
    app = start(reply=SHORT, save_s=0.3)
    async with app.run_test(size=SIZE) as pilot:
        await talk(app, pilot, "hello there")
        await pilot.press("ctrl+q")
        await until(lambda: app._exit)
    assert app.join(15)
    (file,) = kept()
    assert file.read_text() == "hello there"
    again = start(reply=SHORT)
    async with again.run_test(size=SIZE):
        await until(lambda: "Context restored: 2 tokens, 85.0 MB." in said(again))
        assert any("Back in “hello there”" in line for line in said(again))


async def test_an_answer_under_way_is_ended_and_kept(start):
    app = start(reply="word " * 400, token_s=0.02)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        await send(pilot, "hello")
        await until(lambda: chat(app).transcript.last_answer().count("word") > 3)
        await pilot.press("ctrl+q")
        await until(lambda: app._exit)
    assert app.join(15)
    assert len(kept()) == 1


async def test_a_reset_wipes_and_another_conversation_stays(start):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await talk(app, pilot, "one")
        await send(pilot, "/new")
        await until(lambda: len(kept()) == 1)
        await talk(app, pilot, "two")
        await send(pilot, "/new")
        await until(lambda: len(kept()) == 2)
        await talk(app, pilot, "three")
        await send(pilot, ":reset")
        assert said(app) == []
        await pilot.press("ctrl+q")
        await until(lambda: app._exit)
    assert app.join(15)
    assert len(kept()) == 2


async def test_another_budget_while_running(start):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await talk(app, pilot)
        await send(pilot, "/ram 6.5")
        await until(lambda: "Context restored: 1 token, 85.0 MB." in said(app))
        await ready(app)
        assert chat(app).conductor.model.ready.plan.budget == 6.5e9
        assert any("memory plan: " in line and "6.50 GB" in line for line in said(app))
        assert "hello" in said(app)
        await send(pilot, "/context")
        assert "a context of its own choice" in said(app)[-1]


async def test_a_budget_that_is_refused_leaves_the_engine_as_it_was(start, tmp_path):
    app = start(reply=SHORT)
    async with app.run_test(size=SIZE) as pilot:
        await talk(app, pilot)
        start(refuse="the budget of 0.10 GB is too small", refuse_kind="BudgetError")
        await send(pilot, "/ram 0.1")
        await until(lambda: any("is too small" in line for line in said(app)))
        start(reply=SHORT)
        await ready(app)
        assert any("as it was before" in line for line in said(app))
        assert chat(app)._engine.options.ram is None
        assert stage(app).value == "ready"
