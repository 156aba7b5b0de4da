"""Traces played through the atlas, and profiles compared."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from colibri_tui.profiles import usage_path
from colibri_tui.replay_link import ReplayLink
from colibri_tui.screens.compare import CompareScreen
from colibri_tui.screens.replay import ReplayScreen
from engine.experts.simulator import replay_steps
from engine.experts.trace_reader import LayerTrace
from engine.kernels import CACHE_FOLDER
from engine.kernels.cache import FOLDER_VARIABLE
from tests.tui.screens.conftest import chat, load, on_screen, send, until

TRACE = "".join(
    f"{2 * token + layer} 0 {layer + 1} {(token * 7 + layer) % 16}:0.6 {(token * 5 + 3) % 16}:0.4\n"
    for token in range(40)
    for layer in range(2)
)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """The child takes compiled code from where this process keeps it, not from the test's own folder."""
    one = np.zeros(1, np.int32)
    replay_steps(LayerTrace(1, np.arange(2), np.arange(2), one), "auto", 1)
    monkeypatch.setenv(FOLDER_VARIABLE, str(CACHE_FOLDER))


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


async def test_a_long_simulation_counts_its_seconds_and_says_why(scripted, tmp_path, monkeypatch):
    go_on, simulate = threading.Event(), ReplayLink.simulate

    def slow(*given):
        assert go_on.wait(30)
        return simulate(*given)

    monkeypatch.setattr(ReplayLink, "simulate", slow)
    app = scripted()
    async with app.run_test(size=(100, 24)) as pilot:
        await played(pilot, tmp_path)
        assert "simulating" in on_screen(app)
        assert "compiled" not in on_screen(app)
        await until(lambda: "2 s, the first of each policy is compiled" in on_screen(app).replace("\n", " "))
        go_on.set()
        await until(lambda: "simulated" in on_screen(app))
        assert "compiled" not in on_screen(app)


async def test_what_is_simulated_can_be_changed(scripted, tmp_path):
    app = scripted()
    async with app.run_test(size=(100, 24)) as pilot:
        screen = await played(pilot, tmp_path)
        pinned = len(screen._pins)
        now = f"simulated: auto, 2 of 16 slots a layer, {pinned} pinned"
        await until(lambda: now in on_screen(app), "what the engine does now")
        await pilot.press("end")
        drawn = on_screen(app)
        assert f"of {screen._replay.simulation.found.sum():,} look-ups" in drawn
        await pilot.press("i", "p", "up")
        await until(lambda: "simulated: lru, 3 of 16 slots a layer  hits" in on_screen(app), "the other placement")
        assert "this token" in on_screen(app)
        found = screen._replay.simulation.found.copy()
        await pilot.press("left", "left", "right", "right")
        assert screen._replay.simulation.found.tolist() == found.tolist()
        await pilot.press(*["down"] * 9, "P", "P")
        await until(lambda: "simulated: optimum (knows the future), 1 of 16 slots" in on_screen(app))


async def simulated_middle(pilot) -> None:
    """Stand in the middle of a trace, with its simulation."""
    screen = await played(pilot, Path(os.environ["COLIBRI_TUI_HOME"]).parent)
    await until(lambda: screen._replay.simulation is not None, "the simulation")
    await pilot.press("shift+right", "shift+right")
    screen.query_one("#head").update("replay trace")
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_a_simulated_trace_is_drawn(scripted, snap_compare, size):
    assert snap_compare(scripted(), terminal_size=size, run_before=simulated_middle)


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
