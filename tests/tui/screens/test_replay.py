"""Traces played through the atlas, and profiles compared."""

from colibri_tui.profiles import usage_path
from colibri_tui.screens.compare import CompareScreen
from colibri_tui.screens.replay import ReplayScreen
from tests.tui.screens.conftest import chat, load, on_screen, send, until

TRACE = "".join(
    f"{2 * token + layer} 0 {layer + 1} {(token * 7 + layer) % 16}:0.6 {(token * 5 + 3) % 16}:0.4\n"
    for token in range(40)
    for layer in range(2)
)


async def played(pilot, tmp_path) -> ReplayScreen:
    """A trace that was read, stopped at its beginning."""
    app = pilot.app
    await pilot.pause()
    load(app)
    file = tmp_path / "a trace"
    file.write_text(TRACE)
    await send(pilot, f"/replay {file}")
    await until(lambda: isinstance(app.screen, ReplayScreen))
    await until(lambda: app.screen._replay is not None, "the trace to be read")
    await pilot.press("home")
    await pilot.pause()
    return app.screen


async def test_a_trace_is_stepped_and_played(scripted, tmp_path):
    app = scripted()
    async with app.run_test(size=(100, 24)) as pilot:
        screen = await played(pilot, tmp_path)
        assert "token 0 of 40" in on_screen(app)
        await pilot.press("right", "right", "left", "shift+right")
        await pilot.pause()
        assert "token 11 of 40" in on_screen(app)
        assert screen.atlas._sample.fired.any()
        await pilot.press("plus", "plus", "plus", "plus", "plus", "plus", "space")
        await until(lambda: "token 40 of 40" in on_screen(app), "the end")
        await until(lambda: "stopped" in on_screen(app))
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is chat(app)


async def test_a_file_that_is_no_trace_is_refused_on_the_screen(scripted, tmp_path):
    app = scripted()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        (tmp_path / "poem").write_text("roses are red")
        await send(pilot, f"/replay {tmp_path / 'poem'}")
        await until(lambda: "route trace" in on_screen(app).replace("\n", ""))
        await pilot.press("escape")
        await send(pilot, f"/replay {tmp_path / 'nothing'}")
        assert app.screen is chat(app)


async def test_two_profiles_are_compared(scripted):
    app = scripted()
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        load(app)
        key = chat(app).conductor.model.key
        for profile, hot in ("coding", 3), ("chat", 5):
            path = usage_path(profile, key)
            path.parent.mkdir(parents=True)
            path.write_text("-1 8 16\n" + f"1 {hot} 500\n1 0 9\n")
        await send(pilot, "/compare coding chat")
        await until(lambda: isinstance(app.screen, CompareScreen))
        await until(lambda: "Hot in both" in on_screen(app))
        drawn = on_screen(app)
        assert "A coding  B chat" in drawn
        assert "only in coding 1, only in chat 1" in drawn
        await pilot.press("right", "right", "right", "right")
        await pilot.pause()
        assert "layer 1, expert 3  coding: 500 uses, number 1" in on_screen(app)
        assert "chat: 0 uses" in on_screen(app)


async def test_profiles_that_cannot_be_compared_are_named(scripted):
    app = scripted()
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        load(app)
        await send(pilot, "/compare coding nobody")
        assert app.screen is chat(app)
        await send(pilot, "/compare coding chat")
        await until(lambda: "has learned nothing" in on_screen(app))
