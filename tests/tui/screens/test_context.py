"""What the context has no room for is refused before it is sent."""

from colibri_tui.engine_link import EngineCounted
from tests.tui.screens.conftest import chat, load, said, send, until


async def test_a_prompt_that_does_not_fit_stays_in_the_composer(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        screen, engine, words = chat(app), chat(app)._engine, "many words " * 500
        await send(pilot, words)
        await until(lambda: engine.counted)
        number, counted = engine.counted[-1]
        assert words in counted
        screen.post_message(EngineCounted(0, number, 4096))
        await until(lambda: screen.composer.text == words)
        assert engine.asked == []
        assert "would have 4,096 tokens, and the context has room for 4,096" in said(app)[-1]


async def test_one_that_does_fit_is_sent_after_it_was_counted(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        screen, engine = chat(app), chat(app)._engine
        await send(pilot, "many words " * 500)
        await send(pilot, "a short one behind it")
        await until(lambda: engine.counted)
        screen.post_message(EngineCounted(0, engine.counted[-1][0], 4000))
        await until(lambda: engine.asked)
        await until(lambda: "a short one behind it" in engine.counted[-1][1])
        screen.post_message(EngineCounted(0, engine.counted[-1][0], 4010))
        await until(lambda: [prompt.text for prompt in screen.conductor.session.queue] == ["a short one behind it"])


async def test_an_engine_that_does_not_count_is_not_waited_for(scripted, monkeypatch):
    monkeypatch.setattr("colibri_tui.screens.habits.COUNT_SECONDS", 0.01)
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await send(pilot, "many words " * 500)
        await until(lambda: chat(app)._engine.asked)
