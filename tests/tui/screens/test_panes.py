"""Panes beside the chat and on the whole screen, by key and mouse, and what is chosen in them."""

import gc
import json

import pytest
from textual.events import Key, Paste
from textual.widgets._footer import FooterKey

from colibri_tui import paths
from colibri_tui.engine_link import EngineRepin, EngineText, EngineTurn, LinkState
from colibri_tui.key_table import KEY
from colibri_tui.widgets.panes import PANES
from engine.board import Counter, Tier
from engine.events import Repin
from tests.tui.boards import fire
from tests.tui.screens.conftest import chat, load, on_screen, seen, settled, until
from tests.tui.scripted_link import TURN


async def answered(pilot, words=("One", " two", " three")) -> None:
    """One answer of a few words, each with its way through the layers."""
    app = pilot.app
    screen = chat(app)
    await pilot.pause()
    load(app)
    screen.conductor.submit("Count")
    for n, word in enumerate(words):
        fire(screen._engine.board, seed=10 + n)
        screen.post_message(EngineText(1, word, 1, pieces=(word,)))
    await pilot.pause()
    screen._engine.state = LinkState.READY
    screen.post_message(EngineRepin(1, Repin(3, 5, 9, 10, 40, 0.5)))
    await pilot.pause()
    screen.conductor.hear(EngineTurn(1, TURN, "".join(words)))
    await settled(pilot.app)
    await pilot.pause()


async def test_experts_that_come_in_the_background_are_told_and_drawn(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        load(app)
        board = chat(app)._engine.board
        assert chat(app)._watcher is None
        board.counters[[Counter.WARM_DONE, Counter.WARM_TOTAL]] = 3, 9
        chat(app).model_changed()
        await until(lambda: "ready (loading experts: 33%)" in on_screen(app))
        before = chat(app)._sample.tier.copy()
        board.tier[board.tier == Tier.DISK] = Tier.CACHE
        board.counters[Counter.WARM_DONE] = 9
        await until(lambda: "loading experts" not in on_screen(app))
        assert (chat(app)._sample.tier != before).any()
        await until(lambda: chat(app)._watcher is None)


def names(app) -> list[str]:
    return [pane.NAME for pane in chat(app).side.seen()]


@pytest.mark.parametrize("pane", PANES, ids=lambda pane: pane.NAME)
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12)], ids=str)
async def test_each_pane_has_the_whole_screen_for_its_key(scripted, pane, size):
    app = scripted()
    async with app.run_test(size=size) as pilot:
        await answered(pilot)
        await pilot.press(KEY[pane.NAME].keys)
        await pilot.pause()
        assert names(app) == [pane.NAME]
        assert not seen(app, "#chat")
        assert pane.TITLE in on_screen(app)
        assert chat(app).side.pane(pane.NAME).region.width == size[0] - 2
        await pilot.press("escape")
        await pilot.pause()
        assert seen(app, "#chat")
        assert app.focused is chat(app).composer


async def test_every_key_of_a_pane_is_in_the_help(scripted):
    app = scripted()
    async with app.run_test(size=(120, 80)) as pilot:
        await pilot.press("f1")
        await pilot.pause()
        assert all(f"  {KEY[pane.NAME].keys.upper()} " in on_screen(app) for pane in PANES)


async def test_the_list_of_panes_shows_and_hides(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        assert "tiers" in names(app)
        await pilot.press("alt+l", "down", "space")
        await pilot.pause()
        assert "tiers" not in names(app)
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert "tiers" in names(app)
        await pilot.press("alt+l", "f4")
        await pilot.pause()
        assert names(app) == ["speed"]


async def test_a_pane_is_hidden_by_name_and_stays_hidden_at_the_next_start(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        chat(app).composer.draft = "/pane swaps"
        await pilot.press("enter")
        await pilot.pause()
        assert "swaps" in chat(app).side.hidden
        await app.workers.wait_for_complete()
    assert json.loads(paths.state_path().read_bytes())["layout"]["hidden"] == ["expert", "path", "swaps"]
    again = scripted()
    async with again.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        assert "swaps" not in names(again)


async def test_a_name_that_is_no_panes_changes_nothing(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        before = names(app)
        chat(app).action_pane("[nonsense]")
        await pilot.pause()
        assert names(app) == before


@pytest.mark.parametrize("stored", [{"hidden": 3}, {"hidden": ["nobody", 4, "swaps"]}, {"side": "yes"}], ids=str)
async def test_a_stored_layout_that_is_not_understood_does_no_harm(scripted, stored, home):
    path = paths.state_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"layout": stored}))
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        assert "atlas" in names(app)
        assert chat(app).side.hidden <= {pane.NAME for pane in PANES}


async def test_the_mouse_enlarges_and_hides(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        title = chat(app).side.pane("tiers")._title
        await pilot.click(title, offset=(4, 0))
        await pilot.pause()
        assert names(app) == ["tiers"]
        await pilot.click(title, offset=(4, 0))
        await pilot.pause()
        assert len(names(app)) > 1
        await pilot.click(title, offset=(title.size.width - 2, 0))
        await pilot.pause()
        assert "tiers" not in names(app)


async def test_a_wide_window_has_room_for_all_that_are_shown_at_first(scripted):
    app = scripted()
    async with app.run_test(size=(200, 60)) as pilot:
        await answered(pilot)
        assert names(app) == ["atlas", "tiers", "speed", "keff", "swaps"]
        await pilot.resize_terminal(120, 24)
        await pilot.pause()
        assert names(app)[0] == "atlas"
        assert len(names(app)) < 4


async def test_panes_say_what_the_board_says(scripted):
    app = scripted()
    async with app.run_test(size=(200, 60)) as pilot:
        await answered(pilot)
        drawn = on_screen(app)
        assert "2.00 of 2" in drawn
        assert "exact" in drawn
        assert "L3 E5 → E9" in drawn
        assert "slowest" in drawn
        assert "3.00 tok/s" in drawn
        assert "dense" in drawn


async def test_the_chosen_expert_is_told_all_about(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        screen = chat(app)
        layer, expert = 0, int(screen._engine.board.routes.ids[1, 1, 0])
        await pilot.press("f2", "right", *["right"] * expert)
        await pilot.pause()
        assert screen.side.atlas.cursor == (layer, expert)
        assert names(app) == ["atlas", "expert"], "it stands beside the enlarged atlas"
        drawn = on_screen(app)
        assert f"layer 1, expert {expert}" in drawn
        assert f"{int(screen._engine.board.heat[1, expert]):,} uses" in drawn
        assert "called by" in drawn
        await pilot.press("c")
        await pilot.pause()
        assert names(app) == ["atlas"]


async def test_a_click_chooses_an_expert_and_two_clicks_open_its_pane(scripted):
    app = scripted()
    async with app.run_test(size=(120, 50)) as pilot:
        await answered(pilot)
        atlas = chat(app).side.atlas
        grid, left = atlas._grid, atlas._labels(atlas._sample)
        cell = (left + 3 * grid.repeat, atlas._top + 2 * grid.stretch)
        await pilot.click(atlas, offset=cell)
        await pilot.pause()
        assert atlas.cursor == (2, 3)
        assert "expert" not in names(app)
        await pilot.click(atlas, offset=cell, times=2)
        await pilot.pause()
        assert "expert" in names(app)


async def test_profiles_say_where_an_expert_is_hot(scripted, home):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        key = chat(app).conductor.model.key
        for profile, hot in ("default", 3), ("coding", 4):
            path = paths.profiles_dir() / profile / key / ".coli_usage"
            path.parent.mkdir(parents=True)
            path.write_text(f"-1 8 16\n1 {hot % 4} 50\n1 1 5\n")
        await answered(pilot)
        await until(lambda: chat(app).side.pane("expert")._known.ranks, "the profiles to be read")
        known = chat(app).side.pane("expert")._known
        assert known.hot_in(1, 3) == [("default", 0)]
        assert known.kind(1, 3) == "specialist"


async def test_the_way_of_a_token_is_shown_and_drawn_in_the_atlas(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        screen = chat(app)
        await pilot.press("f12", "left")
        await pilot.pause()
        drawn = on_screen(app)
        number = screen.side.selection.token
        assert number == 3, "the one before the newest"
        row = next(n for n in range(4) if screen._engine.board.routes.tokens[n, 0] == number)
        assert f"{screen._engine.board.routes.ids[row, 3, 0]:<3}" in drawn
        assert screen.conductor.model.telemetry.words[number].strip() in drawn
        await pilot.press("f2")
        await pilot.pause()
        assert screen.side.atlas.note
        await pilot.press("f12", "c")
        await pilot.pause()
        assert screen.side.selection.token is None


async def test_a_new_model_forgets_the_last_ones_figures(scripted):
    app = scripted()
    async with app.run_test(size=(200, 60)) as pilot:
        await answered(pilot)
        chat(app).conductor.restart()
        await pilot.pause()
        assert "slowest" not in on_screen(app)
        assert chat(app).side.selection.expert is None


async def test_keys_that_left_the_footer_are_let_go(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        for _ in range(5):
            await pilot.press("f2")
            await pilot.pause()
            await pilot.press("escape")
            await pilot.pause()
        gc.collect()
        keys = [thing for thing in gc.get_objects() if isinstance(thing, FooterKey) and thing._parent is None]
        assert len(keys) <= len(app.screen.query(FooterKey)), "those of one generation may be on their way out"


class TestWritingIsNeverLost:
    """Whatever has the focus, what is written goes into the composer."""

    @pytest.mark.parametrize("text", ["hello", "look", "to the coast", "sch", "ok"])
    async def test_a_burst_of_letters_that_a_pane_would_know(self, scripted, text):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            for widget in (chat(app).side.atlas, chat(app).transcript._log, chat(app).side.pane("tiers")):
                widget.focus()
                await pilot.pause()
                for key in (*text, "left", "!"):
                    app.post_message(Key("space" if key == " " else key, key if len(key) == 1 else None))
                await pilot.pause()
                assert chat(app).composer.text == f"{text[:-1]}!{text[-1]}"
                assert chat(app).composer.has_focus
                chat(app).composer.draft = ""

    async def test_arrows_steer_the_atlas_beside_the_chat_and_letters_do_on_the_whole_screen(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            atlas = chat(app).side.atlas
            atlas.focus()
            await pilot.pause()
            assert "Order" not in on_screen(app).splitlines()[-1], "o would write"
            await pilot.press("right")
            assert atlas.cursor is not None
            assert atlas.has_focus
            await pilot.press("f2")
            await pilot.pause()
            assert "o Order" in on_screen(app).splitlines()[-1]
            await pilot.press("o")
            assert atlas.ranked
            assert chat(app).composer.text == ""

    async def test_what_is_typed_right_after_a_pane_was_put_back(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            await pilot.press("f2")
            await pilot.pause()
            for key in ("f2", *"hello"):
                app.post_message(Key(key, key if len(key) == 1 else None))
            await pilot.pause()
            assert chat(app).composer.text == "hello"

    async def test_a_paste_on_the_whole_screen_leads_back_to_the_composer(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            await pilot.press("f2")
            await pilot.pause()
            app.post_message(Paste("some words"))
            await pilot.pause()
            assert chat(app).composer.text == "some words"
            assert seen(app, "#chat")

    async def test_after_a_click_into_the_atlas(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            await pilot.click(chat(app).side.atlas, offset=(8, 4))
            await pilot.press(*"how to")
            await pilot.pause()
            assert chat(app).side.atlas.cursor is not None
            assert chat(app).composer.text == "how to"

    async def test_a_paste(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            atlas = chat(app).side.atlas
            atlas.focus()
            await pilot.pause()
            atlas.post_message(Paste("two\\nlines"))
            await pilot.pause()
            assert chat(app).composer.text == "two\\nlines"

    async def test_after_the_pane_that_heard_the_keys_was_hidden(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            tiers = chat(app).side.pane("tiers")
            tiers.focus()
            await pilot.pause()
            await pilot.click(tiers, offset=(tiers.region.width - 2, 0))
            await pilot.pause()
            assert "tiers" not in names(app)
            assert chat(app).composer.has_focus

    async def test_escape_leads_back(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await answered(pilot)
            chat(app).side.atlas.focus()
            await pilot.press("escape")
            assert chat(app).composer.has_focus


async def test_escape_is_told_as_what_it_does(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answered(pilot)
        assert "esc" not in on_screen(app).splitlines()[-1]
        await pilot.press("f3")
        await pilot.pause()
        assert "esc Back" in on_screen(app).splitlines()[-1]
        chat(app).conductor.submit("Again")
        await pilot.pause()
        assert "esc Stop" in on_screen(app).splitlines()[-1]
        assert "Back" not in on_screen(app).splitlines()[-1]
