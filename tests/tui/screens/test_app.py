"""Colours, the palette, help, and what the interface process may load."""

import subprocess
import sys

import pytest
from textual.content import Content
from textual.widgets import Static

from colibri_tui import paths
from colibri_tui.key_names import key_name
from colibri_tui.keymap import Keymap
from colibri_tui.render.ramps import Depth
from colibri_tui.screens.help import HelpScreen, help_text
from colibri_tui.settings import Settings
from colibri_tui.themes import builtin_themes
from tests.tui.screens.conftest import chat, load, on_screen, said, send, until


async def test_help_shows_every_key_and_command(scripted):
    app = scripted()
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press("f1")
        assert isinstance(app.screen, HelpScreen)
        assert "Ctrl+N" in on_screen(app)
        await pilot.press("escape")
        assert app.screen is chat(app)
    for words in ("Esc", "/regen", ":more", "/profile [NAME]", "Ctrl+J"):
        assert words in help_text(Keymap()).plain


async def test_help_keeps_its_columns_on_a_narrow_screen(scripted):
    app = scripted()
    async with app.run_test(size=(60, 24)) as pilot:
        await pilot.press("f1")
        await until(lambda: all(line.cell_length <= 54 for line in page(app).split()))
        starts = [line.plain[:2] for line in page(app).split() if line.plain and line.spans[0].style == "bold"]
        assert set(starts) == {"  "}


def page(app) -> Content:
    content = app.screen.query_one("#page Static", Static).content
    assert isinstance(content, Content)
    return content


def test_keys_are_named_as_one_says_them():
    assert key_name("ctrl+n") == "Ctrl+N"
    assert key_name("escape") == "Esc"
    assert key_name("f9") == "F9"


async def test_the_palette_offers_every_command_and_profile(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)):
        load(app)
        titles = {command.title: command for command in app.get_system_commands(app.screen)}
        assert {"New conversation", "Regenerate", "Memory plan", "Profile: coding", "Theme"} <= set(titles)
        await titles["Memory plan"].callback()
        assert "Memory plan" in said(app)[-1]
        titles["Profile: coding"].callback()
        assert chat(app).conductor.model.profile == "coding"


async def test_a_theme_recolours_the_atlas(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        app.theme = "colibri-light"
        await pilot.pause()
        assert chat(app).side.atlas.looks == app.looks
        assert chat(app).hud.hits.looks == app.looks
        app.theme = "ansi16"
        await pilot.pause()
        assert chat(app).side.atlas.looks.depth is Depth.ANSI


async def test_the_theme_of_the_settings(scripted, tmp_path):
    folder = paths.themes_dir()
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\n[colors]\nprimary = "#ff0000"\n')
    (folder / "bad.toml").write_text("name = ")
    app = scripted(settings=Settings(tmp_path / "s.toml", theme="mine"))
    async with app.run_test(size=(120, 40)):
        assert app.theme == "mine"
        await until(lambda: any("theme bad.toml" in line for line in said(app)))


async def test_a_theme_that_does_not_exist_is_told(scripted, tmp_path):
    app = scripted(settings=Settings(tmp_path / "s.toml", theme="nope"))
    async with app.run_test(size=(120, 40)):
        assert app.theme == "colibri"
        await until(lambda: any("there is no theme 'nope'" in line for line in said(app)))


async def test_no_color_leaves_colour_out_altogether(scripted, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.pause()
        assert app.theme == "ansi16"
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert colour is None or colour.is_default
        assert "░" in on_screen(app), "heat and tiers are glyphs"


async def test_a_terminal_of_sixteen_colours_gets_its_own(scripted, monkeypatch):
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.delenv("COLORTERM")
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.pause()
        assert app.theme == "ansi16"
        assert app.looks.depth is Depth.ANSI
        assert "▀" not in on_screen(app)


async def test_ascii_draws_everything_without_symbols(scripted, tmp_path):
    app = scripted(settings=Settings(tmp_path / "s.toml", ascii=True))
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.pause()
        chat(app).tell("A notice.")
        chat(app).transcript.add_user("hello")
        chat(app).transcript.start_reply()
        chat(app).transcript.set_progress("reading", 0.5)
        await pilot.pause()
        assert on_screen(app).isascii(), on_screen(app)
        assert on_screen(app).splitlines()[-1].startswith(" enter Send")
        chat(app).transcript.feed("# A\n\n- one\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> said")
        await pilot.pause()
        assert on_screen(app).isascii(), on_screen(app)
        for key in ("ctrl+p", "f1"):
            await pilot.press(key)
            await pilot.pause()
            assert on_screen(app).isascii(), on_screen(app)
            await pilot.press("escape")


async def test_themes_are_tried_kept_and_left(scripted, tmp_path):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("ctrl+t", "down")
        await pilot.pause()
        tried = app.theme
        assert tried != "colibri"
        assert chat(app).side.atlas.looks == app.looks
        await pilot.press("escape")
        assert app.theme == "colibri"
        await pilot.press("ctrl+t", "down", "enter")
        await until(lambda: (tmp_path / "settings.toml").exists())
        assert app.theme == tried
        assert f'theme = "{tried}"' in (tmp_path / "settings.toml").read_text()
        await send(pilot, "/theme okabe")
        await until(lambda: "okabe" in (tmp_path / "settings.toml").read_text())
        assert app.theme == "okabe"
        await send(pilot, "/theme nope")
        assert app.theme == "okabe"


async def test_every_theme_can_be_put_on(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        for name in [*builtin_themes(), "textual-light", "nord"]:
            app.theme = name
            await pilot.pause()
            assert chat(app).side.atlas.looks == app.looks


async def test_a_theme_of_ones_own_is_put_on_while_it_is_written(scripted, home, monkeypatch):
    monkeypatch.setattr("colibri_tui.app.WATCH_SECONDS", 0.02)
    folder = home / "config" / "themes"
    folder.mkdir(parents=True)
    app = scripted()
    async with app.run_test(size=(120, 40)):
        file = folder / "mine.toml"
        file.write_text('name = "mine"\n[colors]\nprimary = "#ff0000"\n')
        await until(lambda: "mine" in app.available_themes)
        app.theme = "mine"
        file.write_text('name = "mine"\n[colors]\nprimary = "#00ff00" # green\n')
        await until(lambda: app.theme_variables["primary"].upper() == "#00FF00")
        file.write_text("name = ")
        await until(lambda: app._notifications)
        assert app.theme == "colibri"


@pytest.mark.parametrize("module", ["telemetry", "session", "journal", "actions", "plan_text", "render.grid"])
def test_what_needs_no_screen_knows_none(module):
    code = f"import sys, colibri_tui.{module}; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("module", ["numba", "llvmlite", "safetensors", "tokenizers", "jinja2"])
def test_the_interface_does_not_load_the_engine(module):
    code = f"import sys, colibri_tui.app; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_prompt_comes_back_above_what_was_written_meanwhile(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        chat(app).conductor.submit("first")
        await until(lambda: chat(app).conductor.answering)
        chat(app).conductor.submit("second")
        await pilot.press(*"third", "escape")
        assert chat(app).composer.text == "first\n\nsecond\n\nthird"


async def test_ctrl_p_finds_commands_by_name(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("ctrl+p")
        await pilot.press(*"plan")
        await until(lambda: "Show where the memory goes" in on_screen(app))
        await pilot.press("enter")
        await until(lambda: any("Memory plan" in line for line in said(app)))


async def test_copying_says_where_the_text_went(scripted, monkeypatch):
    monkeypatch.setattr("colibri_tui.clipboard.copy", lambda text: None)
    app = scripted()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        load(app)
        await pilot.press("alt+y")
        await until(lambda: "no answer to copy" in on_screen(app))
        chat(app).transcript.start_reply()
        chat(app).transcript.feed("An answer.")
        await pilot.press("alt+y")
        await until(lambda: app.clipboard == "An answer.")
        await until(lambda: "through the terminal" in on_screen(app))


async def test_ctrl_c_copies_what_is_selected_before_it_stops(scripted, monkeypatch):
    copied = []
    monkeypatch.setattr("colibri_tui.clipboard.copy", lambda text: copied.append(text) or "xclip")
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        chat(app).conductor.submit("hello")
        await until(lambda: chat(app).conductor.answering)
        chat(app).composer.draft = "selected words"
        chat(app).composer.select_all()
        await pilot.press("ctrl+c")
        await until(lambda: copied == ["selected words"])
        assert chat(app).conductor.answering
        assert chat(app).composer.text == "selected words"
        await pilot.press("ctrl+c")
        assert not chat(app).conductor.answering


@pytest.mark.parametrize(("variable", "seconds"), [("", 0.1), ("SSH_TTY", 0.5), ("SSH_CONNECTION", 0.5)])
async def test_over_ssh_frames_are_few(scripted, monkeypatch, variable, seconds):
    if variable:
        monkeypatch.setenv(variable, "x")
    app = scripted()
    async with app.run_test(size=(120, 40)):
        load(app)
        assert chat(app)._ticker is None, "nothing moves while nothing runs"
        chat(app).conductor.submit("hello")
        await until(lambda: chat(app)._ticker)
        assert chat(app)._ticker._interval == seconds / 2, "a frame has two beats"
        chat(app).conductor.stop()
        assert chat(app)._ticker is None


async def test_a_hidden_column_is_not_drawn(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        load(app)
        await pilot.pause()
        screen = chat(app)
        assert screen.side.atlas._sample is None
        assert screen.hud.atlas._sample is not None
        await pilot.press("f2")
        await pilot.pause()
        assert screen.side.atlas._sample is not None
