"""Practice on the screen, with a scripted engine and with the fake one in its process."""

from dataclasses import replace

import pytest

from colibri_tui import practice
from colibri_tui.engine_link import EngineError, EngineReady, EngineText, EngineTurn, LinkState
from colibri_tui.screens.practice import PracticeScreen
from colibri_tui.settings import read_settings
from engine.board import Board
from engine.events import Hits
from tests.tui.boards import lived_in
from tests.tui.screens.conftest import chat, load, on_screen, ready, said, send, until
from tests.tui.scripted_link import PLAN, READY, TURN

SIZE = (120, 40)


def restart(app, *, board: Board | None = None, pins: int = 0) -> None:
    """Let the engine be ready after it was started again."""
    screen = chat(app)
    screen._engine.board = board or lived_in(8, 16)
    screen._engine.state = LinkState.READY
    plan = replace(PLAN, pins=pins)
    screen.post_message(EngineReady(0, replace(READY, moe_layers=tuple(range(1, 8)), context=4096, plan=plan)))


def answer(app, *, disk: int = 1, stop: str = "eos") -> None:
    """Let the engine end the turn it was asked for."""
    screen = chat(app)
    turn = len(screen._engine.asked)
    screen.post_message(EngineText(turn, "words of an answer", 3))
    screen._engine.state = LinkState.READY
    screen.post_message(EngineTurn(turn, replace(TURN, hits=Hits(1, 1, disk), stop=stop), "words"))


async def play(pilot, prompts: int, **turn) -> None:
    """Answer so many prompts, one after the other."""
    engine = chat(pilot.app)._engine
    for _ in range(prompts):
        asked = len(engine.asked)
        assert engine.state is LinkState.BUSY
        answer(pilot.app, **turn)
        await until(lambda asked=asked: len(engine.asked) > asked or engine.state is not LinkState.READY or done(pilot))


def done(pilot) -> bool:
    screen = pilot.app.screen
    return not isinstance(screen, PracticeScreen) or (screen._practice and screen._practice.stage == "done")


async def to_measurement(pilot) -> None:
    """Choose the chat workload and answer what is to be learned from."""
    await pilot.press("down", "enter")
    await pilot.pause()
    await play(pilot, 6)
    await pilot.pause()


async def test_from_the_choice_to_pins_that_are_on(scripted, tmp_path):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        engine = chat(app)._engine
        await send(pilot, "/practice")
        await pilot.pause()
        assert "coding" in on_screen(app)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "1 of 3: learning from prompt 1 of 6 (chat)" in str(app.screen.body.content)
        assert "choices of experts: enough" in str(app.screen.body.content)
        assert engine.samplings[-1].max_tokens == practice.LEARN_TOKENS
        await play(pilot, 6)
        assert (engine.started[-1][1].pin, engine.started[-1][1].learn) == ("off", False)
        restart(app)
        await until(lambda: engine.state is LinkState.BUSY)
        assert engine.samplings[-1].temperature == 0
        assert "2 of 3: pins off, held-out prompt 1 of 2" in str(app.screen.body.content)
        await play(pilot, 2, disk=10)
        assert (engine.started[-1][1].pin, engine.started[-1][1].learn) == ("auto", False)
        restart(app, pins=5_000_000)
        await until(lambda: engine.state is LinkState.BUSY)
        held_out = [asked[0][0]["content"] for asked in engine.asked[6:8]]
        await play(pilot, 2, disk=4)
        assert [asked[0][0]["content"] for asked in engine.asked[8:]] == held_out
        await pilot.pause()
        assert "Pins take 5.00 MB" in str(app.screen.body.content)
        assert "fewer experts with pins" in str(app.screen.body.content)
        assert (engine.started[-1][1].pin, engine.started[-1][1].learn) == ("off", True), "as it was before"
        restart(app)
        await pilot.press("enter")
        await until(lambda: app.screen is chat(app))
        assert read_settings({}, tmp_path / "settings.toml").engine == {"pin": "auto"}
        assert engine.started[-1][1].pin == "auto"
        assert "Pins are on" in said(app)[-1]


async def test_it_is_left_in_the_middle_and_goes_on_there(scripted):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        chat(app).action_practice()
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        await play(pilot, 2)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is chat(app)
        assert chat(app)._engine.stops == 1
    again = scripted()
    async with again.run_test(size=SIZE) as pilot:
        load(again)
        restart(again)
        await until(lambda: any("left half way" in line for line in said(again)))
        chat(again).action_practice()
        await pilot.pause()
        assert "prompt 3 of 6" in str(again.screen.body.content)


async def test_leaving_a_measurement_restores_the_options(scripted):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        chat(app).action_practice()
        await pilot.pause()
        await to_measurement(pilot)
        engine = chat(app)._engine
        assert not engine.started[-1][1].learn
        await pilot.press("escape")
        await pilot.pause()
        assert engine.started[-1][1].learn


async def test_measuring_can_begin_early_and_anew(scripted):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        chat(app).action_practice()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("m")
        answer(app, stop="user")
        await until(lambda: chat(app)._engine.started[-1][1].learn is False)
        await pilot.press("n")
        await pilot.pause()
        assert app.screen.has_class("-choosing")


async def test_ones_own_prompts(scripted):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        chat(app).action_practice()
        await pilot.pause()
        await pilot.press("up", "enter")
        await pilot.pause()
        await pilot.press(*"one", "ctrl+s")
        await pilot.pause()
        assert "at least two prompts" in on_screen(app)
        await pilot.press("enter", "enter", *"two", "ctrl+s")
        await pilot.pause()
        assert chat(app)._engine.asked[-1][0] == [{"role": "user", "content": "one"}]


async def test_pins_that_would_be_none_cannot_be_turned_on(scripted, tmp_path):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        run = practice.begin("chat")
        run.skip()
        run.off, run.on = practice.Totals(disk=3), practice.Totals(disk=3)
        practice.save(practice.path_for("default", chat(app).conductor.model.key), run)
        chat(app).action_practice()
        await pilot.pause()
        assert "still too small" in str(app.screen.body.content)
        await pilot.press("enter")
        assert isinstance(app.screen, PracticeScreen)
        await pilot.press("escape")
        assert not (tmp_path / "settings.toml").exists()


async def test_an_engine_that_fails_is_told(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        load(app)
        chat(app).action_practice()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        chat(app)._engine.state = LinkState.READY
        chat(app).post_message(EngineError(1, "layer 3: read failed", fatal=False))
        await until(lambda: "read failed" in on_screen(app))
        await pilot.press("escape")
        assert app.screen is chat(app)


async def test_without_a_model_there_is_nothing_to_practise(scripted):
    app = scripted(model=False)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("escape")
        chat(app).action_practice()
        await pilot.pause()
        assert "no model yet" in said(app)[-1]


@pytest.mark.parametrize("known", [True, False])
async def test_a_profile_that_knows_nothing_is_offered_practice(scripted, known):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for _ in range(2):
            restart(app, board=lived_in(8, 16) if known else Board(8, 16))
            await pilot.pause()
        offers = [line for line in said(app) if "knows nothing of this model" in line]
        assert len(offers) == (not known)


async def test_the_offer_does_not_stand_between_a_prompt_and_its_answer(scripted):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        await send(pilot, "hello")
        restart(app, board=Board(8, 16))
        await until(lambda: chat(app)._engine.asked)
        await pilot.pause()
        assert "knows nothing" not in "\n".join(said(app))
        answer(app)
        await until(lambda: "knows nothing" in said(app)[-1])
        assert said(app)[-3:-1] == ["hello", "words of an answer"]


async def test_with_an_engine_that_really_runs(start):
    app = start(length=3, prefill_chunk=4096)
    async with app.run_test(size=SIZE) as pilot:
        await ready(app)
        chat(app).action_practice()
        await pilot.pause()
        await pilot.press("enter")
        await until(lambda: "Nothing would be pinned" in str(app.screen.body.content))
        await ready(app)
        await pilot.press("escape")
        await send(pilot, "hello")
        await until(lambda: chat(app).transcript.last_answer())


async def test_other_colours_reach_it_as_well(scripted):
    app = scripted()
    async with app.run_test(size=SIZE) as pilot:
        load(app)
        await pilot.pause()
        chat(app).action_practice()
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, PracticeScreen)
        before = screen.atlas.looks.palette
        app.theme = "colibri-light"
        await pilot.pause()
        assert screen.atlas.looks.palette != before
        assert screen.atlas.looks == app.looks
