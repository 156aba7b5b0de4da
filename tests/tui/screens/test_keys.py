"""Keys that a person has changed: they work, they are named truthfully, and mistakes are told."""

import pytest
from textual.events import Key

from colibri_tui.screens.keys import KeysScreen
from colibri_tui.settings import Settings, read_settings
from tests.tui.screens.conftest import chat, load, on_screen, said, send, until


@pytest.fixture
def changed(scripted, tmp_path):
    def make(**keys):
        return scripted(settings=Settings(tmp_path / "settings.toml", keys=keys))

    return make


async def test_a_key_that_was_changed_does_what_the_old_one_did_and_the_old_one_does_not(changed):
    app = changed(side="f10", stop="ctrl+x, f11", composer_cut="none")
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("ctrl+b")
        assert not chat(app).has_class("-no-side")
        await pilot.press("f10")
        assert chat(app).has_class("-no-side")
        chat(app).conductor.submit("hello")
        await pilot.press("escape")
        assert chat(app).conductor.answering
        await pilot.press("ctrl+x")
        assert not chat(app).conductor.answering


async def test_what_shares_a_key_keeps_it(changed):
    app = changed(stop="ctrl+x", composer_cut="none", composer_submit="f10", composer_newline="enter")
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        chat(app).side.atlas.focus()
        await pilot.press("escape")
        assert chat(app).composer.has_focus, "Esc still leads back"
        await pilot.press(*"a", "enter", *"b")
        assert chat(app).composer.text == "a\nb"
        chat(app).composer.draft = ""
        await pilot.press(*"/hel", "enter")
        assert chat(app).composer.text == "" or app.screen is not chat(app), "Enter still takes a suggestion"


async def test_every_text_names_the_keys_in_force(changed):
    app = changed(
        side="f10", close="f11", composer_newline="none", stop="none", help="ctrl+h", atlas="alt+f", models="alt+o"
    )
    async with app.run_test(size=(160, 40)) as pilot:
        load(app)
        await pilot.pause()
        screen = on_screen(app)
        assert "Ctrl+J" not in screen
        assert "f10 Side" in screen.splitlines()[-1]
        assert " Alt+F x" in screen, "in the title of the pane"
        assert "Alt+O" in screen, "in what an empty conversation says"
        chat(app).conductor.submit("hello")
        await pilot.pause()
        assert "none" not in on_screen(app).splitlines()[-1]
        await pilot.press("ctrl+h")
        await pilot.pause()
        screen = on_screen(app)
        assert "F11 closes" in screen
        assert "  Alt+F  " in screen
        assert "  F2  " not in screen
        await pilot.press("f11")
        assert app.screen is chat(app)


async def test_mistakes_are_told_and_the_others_hold(changed):
    app = changed(side="f10", sied="f11", new="ctrl+nn", panes="b", lab="ctrl+q", find=3)
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("f10")
        assert chat(app).has_class("-no-side")
        for line in (
            "unknown name 'sied'; did you mean 'side'?",
            "new: there is no key 'ctrl+nn'",
            "panes: b writes",
            "lab: Ctrl+Q is the key of quit",
            "find: 3 is no key",
        ):
            assert any(line in told for told in said(app)), line


async def test_the_settings_file_is_followed(scripted, tmp_path, monkeypatch):
    monkeypatch.setattr("colibri_tui.app.WATCH_SECONDS", 0.05)
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        (tmp_path / "settings.toml").write_text('[keys]\nside = "f10"\n')
        await until(lambda: "f10 Side" in on_screen(app).splitlines()[-1])
        await pilot.press("f10")
        assert chat(app).has_class("-no-side")
        (tmp_path / "settings.toml").write_text('[keys]\nside = "f9"\n[ui]\ntheme = "ember"\n')
        await until(lambda: app.theme == "ember")
        assert any("F9 is the key of plan" in notice.message for notice in app._notifications)
        (tmp_path / "settings.toml").write_text("[keys")
        await until(lambda: any("not valid TOML" in notice.message for notice in app._notifications))
        await until(lambda: "^b Side" in on_screen(app).splitlines()[-1])


async def test_letters_of_the_atlas_can_be_changed(changed):
    app = changed(atlas_order="x", atlas_left="a", atlas_right="d")
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("f2")
        await pilot.pause()
        await pilot.press("o")
        assert not chat(app).side.atlas.ranked
        await pilot.press("x", "d", "d")
        assert chat(app).side.atlas.ranked
        assert "x Order" in on_screen(app).splitlines()[-1]


class TestKeysScreen:
    async def open(self, pilot, at: str) -> KeysScreen:
        await send(pilot, "/keys")
        screen = pilot.app.screen
        assert isinstance(screen, KeysScreen)
        screen.listed.highlighted = screen.listed.get_option_index(at)
        await pilot.pause()
        return screen

    async def test_a_key_is_changed_by_pressing_it(self, scripted, tmp_path):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await self.open(pilot, "side")
            await pilot.press("enter", "f10")
            await pilot.pause()
            assert read_settings({}, tmp_path / "settings.toml").keys == {"side": "f10"}
            await pilot.press("insert", "alt+x", "escape")
            await pilot.pause()
            assert app.screen is chat(app)
            await pilot.press("alt+x")
            assert chat(app).has_class("-no-side")
            await self.open(pilot, "side")
            await pilot.press("delete", "escape")
            assert read_settings({}, tmp_path / "settings.toml").keys == {}
            await pilot.press("ctrl+b")
            assert not chat(app).has_class("-no-side")

    @pytest.mark.parametrize("size", [(80, 24), (120, 40)])
    async def test_a_key_of_something_else_changes_hands_when_it_is_pressed_twice(self, scripted, tmp_path, size):
        app = scripted()
        async with app.run_test(size=size) as pilot:
            load(app)
            await self.open(pilot, "side")
            await pilot.press("enter", "ctrl+q")
            await pilot.pause()
            assert "Ctrl+Q is the key of quit. Press it again" in " ".join(on_screen(app).split())
            assert app.is_running
            await pilot.press("ctrl+q")
            await pilot.pause()
            assert read_settings({}, tmp_path / "settings.toml").keys == {"side": "ctrl+q", "quit": "none"}

    async def test_what_cannot_be_is_told_and_escape_leaves_it(self, scripted, tmp_path):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await self.open(pilot, "side")
            await pilot.press("enter", "b")
            await pilot.pause()
            assert "b writes" in on_screen(app)
            await pilot.press("tab")
            await pilot.pause()
            assert "Tab goes from one part" in on_screen(app)
            await pilot.press("escape")
            assert isinstance(app.screen, KeysScreen)
            assert not (tmp_path / "settings.toml").exists()

    async def test_a_default_that_has_gone_to_another_is_taken_back_there(self, changed, tmp_path):
        app = changed(side="f10", new="ctrl+b", lab="ctrl+n")
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await self.open(pilot, "side")
            await pilot.press("delete")
            await pilot.pause()
            assert "Ctrl+B is the key of new now" in on_screen(app)

    async def test_it_is_reached_from_the_settings(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await pilot.press("f8", "end", "enter")
            await pilot.pause()
            assert isinstance(app.screen, KeysScreen)


async def test_keys_reach_the_screen_in_order_while_one_is_awaited(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await send(pilot, "/keys")
        app.screen.listed.highlighted = app.screen.listed.get_option_index("side")
        await pilot.press("enter")
        app.post_message(Key("f10", None))
        app.post_message(Key("escape", None))
        await until(lambda: app.keymap.keys("side") == ("f10",))
        assert app.screen is chat(app)
