"""What is seen at which size, and that no size breaks it."""

import pytest

from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.status_line import StatusLine
from tests.tui.screens.conftest import chat, load, on_screen, seen

SIZES = [(200, 60), (120, 40), (100, 16), (80, 24), (60, 16), (59, 15), (40, 12), (39, 11), (20, 5), (10, 3)]
FIRST_SIZES = [(200, 60), (40, 12), (3, 6), (1, 1)]
"""The first layout knows no size classes yet; so some sizes are started with."""


async def check(app, pilot, size: tuple[int, int]) -> None:
    width, height = size
    assert seen(app, "#side") == (width >= 100)
    assert seen(app, "#hud") == (40 <= width < 100 and height >= 12)
    assert seen(app, "Footer") == (width >= 60 and height >= 16)
    if height >= 5:
        assert app.screen.query_one(Composer).region.height >= 1
        assert app.screen.query_one(StatusLine).region.bottom <= height
    for key in ("f2", "ctrl+b", "f2", "ctrl+b"):
        await pilot.press(key)


@pytest.mark.parametrize("size", FIRST_SIZES)
async def test_chat_and_state_are_there_at_any_first_size(scripted, size):
    app = scripted()
    async with app.run_test(size=size) as pilot:
        load(app)
        await pilot.pause()
        await check(app, pilot, size)


async def test_chat_and_state_are_there_at_any_later_size(scripted):
    app = scripted()
    async with app.run_test(size=(90, 20)) as pilot:
        load(app)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await check(app, pilot, size)


async def test_f2_gives_the_atlas_the_screen_and_back(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        load(app)
        await pilot.press("f2")
        assert seen(app, "#side")
        assert not seen(app, "#chat")
        assert app.focused is chat(app).side.atlas
        assert "heat" in on_screen(app)
        await pilot.press("t")
        assert "tiers" in on_screen(app)
        await pilot.press("escape")
        assert seen(app, "#chat")
        assert app.focused is chat(app).composer


async def test_the_side_column_is_remembered(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("ctrl+b")
        assert not seen(app, "#side")
        await app.workers.wait_for_complete()
    again = scripted()
    async with again.run_test(size=(120, 40)):
        load(again)
        assert not seen(again, "#side")


async def test_growing_and_shrinking_keep_everything_in_place(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        load(app)
        chat(app).composer.draft = "draft"
        for size in (200, 60), (30, 8), (120, 40), (80, 24):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert len(on_screen(app).splitlines()) == size[1]
        assert chat(app).composer.text == "draft"
        assert "hit" in on_screen(app)


async def test_the_hud_and_the_column_show_the_same_figures(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        load(app)
        await pilot.pause()
        hud = next(line for line in on_screen(app).splitlines() if "hit " in line)
        assert "pin" in hud
        assert "▀" in hud, "and a compact atlas"
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert "this answer" in on_screen(app)
        assert "total" in on_screen(app)


@pytest.mark.parametrize("size", [(30, 8), (1, 1)])
async def test_every_screen_opens_at_any_size(scripted, size):
    app = scripted()
    async with app.run_test(size=size) as pilot:
        load(app)
        for key in ("f1", "ctrl+s", "ctrl+o", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause()
            assert app.screen is not chat(app)
            await pilot.press("escape")
            await pilot.pause()
            assert app.screen is chat(app)


async def test_the_footer_shows_whole_keys_and_in_the_narrowest_window_those_that_lead_to_the_others(scripted):
    app = scripted()
    async with app.run_test(size=(200, 24)) as pilot:
        load(app)
        await pilot.pause()
        everything = on_screen(app).splitlines()[-1].rstrip()
        for width in (60, 80, 100, 200):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            line = on_screen(app).splitlines()[-1].rstrip()
            assert "f1 Help" in line
            assert line.endswith("^p Commands")
            assert line.removesuffix("  ^p Commands") in everything, "none is cut in two"
        assert line == everything
        await pilot.resize_terminal(60, 24)
        await pilot.press("f12")
        await pilot.pause()
        assert "esc Back" in on_screen(app).splitlines()[-1]
