"""The settings screen and the profile switcher."""

from dataclasses import replace

import pytest

from colibri_tui import histories, paths
from colibri_tui.option_rows import has_few, next_value, option_rows, range_text, value_text
from colibri_tui.profiles import is_frozen, usage_path
from colibri_tui.screens.profiles import ProfilesScreen
from colibri_tui.screens.settings import SettingsScreen
from colibri_tui.settings import Settings, read_settings, read_state
from engine.options import KNOB, KNOBS, EngineOptions
from tests.tui.screens.conftest import chat, load, on_screen, said, send, until
from tests.tui.scripted_link import READY


@pytest.fixture
def file(tmp_path):
    return tmp_path / "settings.toml"


async def open_settings(pilot, *, at: str) -> None:
    await pilot.press("f8")
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, SettingsScreen)
    screen.listed.highlighted = screen._names.index(at)
    await pilot.pause()


class TestRows:
    def test_every_option_says_where_it_comes_from(self):
        origins = {knob.name: "default" for knob in KNOBS} | {"ram": "environment", "topp": "flag", "pin": "settings"}
        options = EngineOptions(ram=2.0, topp=0.8, pin="auto")
        rows = {row.knob.name: row for row in option_rows(options, origins, EngineOptions(), READY)}
        assert rows.keys() == KNOB.keys()
        assert [rows[name].origin for name in ("ram", "topp", "pin", "cap")] == [
            "$RAM_GB", "--topp", "settings file", "default",
        ]  # fmt: skip
        assert rows["ram"].waits
        assert not rows["cap"].waits
        assert (rows["cap"].value, rows["cap"].chosen) == ("auto", "2 a layer")
        assert rows["context"].chosen == "100 tokens"

    @pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
    def test_every_option_can_be_told(self, knob):
        assert range_text(knob)
        assert "e+" not in range_text(knob), "a number that everybody reads"
        assert value_text(knob, getattr(EngineOptions(), knob.name))

    def test_values_are_written_as_one_types_them(self):
        assert value_text(KNOB["pin_gb"], float("inf")) == "all"
        assert value_text(KNOB["ram"], 12.5) == "12.5"
        assert value_text(KNOB["direct"], True) == "on"
        assert value_text(KNOB["usage"], None) == "not set"

    def test_few_values_are_gone_through_in_a_ring(self):
        policy = KNOB["policy"]
        seen, value = [], None
        for _ in range(len(policy.choices) + 1):
            seen.append(value)
            value = next_value(policy, value)
        assert value is None
        assert seen == [None, *policy.choices]
        assert next_value(KNOB["direct"], True) is False
        assert not has_few(KNOB["ram"])


class TestSettingsScreen:
    async def test_a_change_is_written_and_waits_for_the_next_start(self, scripted, file):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await open_settings(pilot, at="ram")
            await pilot.press("enter", *"2.5", "enter")
            assert read_settings({}, file).engine == {"ram": 2.5}
            assert "next start" in on_screen(app)
            await pilot.press("escape")
            await pilot.pause()
            assert "at its next start" in said(app)[-1]
            await chat(app).run_action("restart")
            assert chat(app)._engine.started[-1][1].ram == 2.5

    async def test_few_values_change_at_a_press_and_go_back(self, scripted, file):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await open_settings(pilot, at="direct")
            await pilot.press("enter")
            assert read_settings({}, file).engine == {"direct": False}
            await pilot.press("delete")
            assert read_settings({}, file).engine == {}
            await pilot.press("escape")
            await pilot.pause()
            assert not any("next start" in line for line in said(app))

    async def test_what_is_no_value_is_told_and_not_written(self, scripted, file):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await open_settings(pilot, at="topp")
            assert "Lossy" in on_screen(app)
            await pilot.press("enter", *"many", "enter")
            await pilot.pause()
            assert "is not a number" in on_screen(app)
            await pilot.press("enter", *"9", "enter")
            await pilot.pause()
            assert "outside 0.01..1" in on_screen(app)
            await pilot.press("enter", "escape")
            assert isinstance(app.screen, SettingsScreen), "Esc leaves the line first"
            assert not file.exists()

    async def test_a_flag_wins_and_that_is_said(self, start, file):
        app = start(flags={"ram": 3.0})
        async with app.run_test(size=(120, 40)) as pilot:
            await open_settings(pilot, at="ram")
            assert "--ram wins over the file" in str(app.screen.about.content)

    async def test_a_profile_that_is_none_is_refused(self, scripted, file):
        file.write_text("# mine\n")
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            await open_settings(pilot, at="profile")
            await pilot.press("enter", *"a/b", "enter")
            await pilot.pause()
            assert "not allowed" in on_screen(app)
            assert file.read_text() == "# mine\n"

    async def test_the_screens_own_settings_hold_at_once(self, scripted, file):
        app = scripted(settings=Settings(file))
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await open_settings(pilot, at="ascii")
            await pilot.press("enter", "down", "enter", "escape")
            await pilot.pause()
            assert (read_settings({}, file).ascii, read_settings({}, file).reduce_motion) == (True, True)
            assert on_screen(app).isascii()
            assert app.animation_level == "none"
            chat(app).conductor.submit("hello")
            await until(lambda: chat(app)._ticker)
            assert chat(app)._ticker._interval == 0.5


class TestProfiles:
    async def test_another_profile_is_chosen_from_a_list(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            key = chat(app).conductor.model.key
            history = usage_path("coding", key)
            history.parent.mkdir(parents=True)
            history.write_text("0 1 700\n0 2 300\n")
            await pilot.press("alt+p")
            await until(lambda: "1,000 choices of 2 experts" in on_screen(app))
            assert "default  in use" in on_screen(app)
            await pilot.press("down", "ctrl+f")
            await until(lambda: is_frozen("coding", key))
            await until(lambda: "frozen: it does not learn" in on_screen(app))
            await pilot.press("enter")
            await until(lambda: chat(app).conductor.model.profile == "coding")
            await until(lambda: read_state(paths.state_path()).profile == "coding")

    async def test_a_new_name_makes_a_new_profile(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await send(pilot, "/profile")
            assert isinstance(app.screen, ProfilesScreen)
            await pilot.press(*"a/b", "enter")
            await pilot.pause()
            assert "not allowed" in on_screen(app)
            await pilot.press(*(["backspace"] * 3), *"birds", "enter")
            await until(lambda: chat(app).conductor.model.profile == "birds")

    async def test_a_history_that_cannot_be_read_is_said(self, scripted, monkeypatch):
        def broken(name: str, key: str) -> histories.Summary:
            raise histories.EngineError(f"{name}: cannot be read")

        monkeypatch.setattr(histories, "summarise", broken)
        app = scripted()
        async with app.run_test(size=(120, 40)) as pilot:
            load(app)
            await pilot.press("alt+p")
            await until(lambda: "coding: cannot be read" in on_screen(app))
            await pilot.press("ctrl+f")
            await pilot.pause()
            assert "default: cannot be read" in on_screen(app)


def test_the_rows_of_a_stopped_engine(file):
    rows = option_rows(EngineOptions(), {knob.name: "default" for knob in KNOBS}, None, None)
    assert not any(row.waits or row.chosen for row in rows)
    assert replace(rows[0], waits=True).waits
