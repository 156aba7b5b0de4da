"""Pictures of what the chat habits, the settings and practice look like, at three sizes and in two themes.

After a wanted change: `pytest tests/tui/screens/test_habit_snapshots.py --snapshot-update`.
"""

from pathlib import Path

import pytest

from colibri_tui import paths, practice
from colibri_tui.conversations import Conversations
from colibri_tui.engine_link import EngineText, EngineTurn, LinkState
from colibri_tui.screens.practice import PracticeScreen
from colibri_tui.settings import Settings
from engine.options import KNOB
from tests.tui.screens.conftest import chat, load, settled, until
from tests.tui.screens.test_snapshots import ANSWER
from tests.tui.scripted_link import TURN

SIZES = {"80x24": "colibri", "120x40": "colibri-light", "200x60": "colibri"}
"""Each size and its theme."""


@pytest.fixture(params=SIZES)
def take(request, scripted, snap_compare, tmp_path, monkeypatch):
    """Return a function that takes a picture of a conversation after some keys."""
    monkeypatch.chdir(tmp_path)
    width, height = map(int, request.param.split("x"))

    def picture(*keys: str, then=None) -> bool:
        async def before(pilot) -> None:
            app = pilot.app
            await pilot.pause()
            load(app)
            screen = chat(app)
            for turn, prompt in enumerate(("How does the router choose experts?", "And on a miss?"), 1):
                screen.conductor.submit(prompt)
                await until(lambda turn=turn: len(screen._engine.asked) == turn)
                screen.conductor.hear(EngineText(turn, ANSWER, 20))
                screen._engine.state = LinkState.READY
                screen.conductor.hear(EngineTurn(turn, TURN, ANSWER))
                await settled(pilot.app)
            await pilot.pause()
            await pilot.press(*keys)
            if then is not None:
                await then(pilot)
            await pilot.pause()

        app = scripted(settings=Settings(Path("settings.toml"), theme=SIZES[request.param]))
        return snap_compare(app, terminal_size=(width, height), run_before=before)

    return picture


def test_commands_that_could_be_meant(take):
    assert take("/", "t", "e")


def test_a_prompt_that_is_written_anew(take):
    assert take("alt+e", "alt+e")


def test_words_that_were_found_and_a_message_that_is_chosen(take):
    assert take("alt+up", "ctrl+f", *"expert", "up")


def test_earlier_prompts(take, home):
    store = Conversations(paths.database_path())
    conversation = store.create("olmoe-00000000", "default")
    for prompt in ("What is a pin?", "Explain this:\n\nx = 1", "How are you?"):
        store.add(conversation, "user", prompt)
    store.close()

    async def listed(pilot) -> None:
        await until(lambda: pilot.app.screen is not chat(pilot.app))
        await pilot.press("h")

    assert take("ctrl+r", then=listed)


def test_themes(take):
    assert take("ctrl+t")


def test_settings(take, monkeypatch):
    monkeypatch.setenv("TOPP", "0.8")
    shown = tuple(KNOB[name] for name in ("ram", "cap", "context", "topp", "direct", "pin", "pin_gb", "policy"))
    monkeypatch.setattr("colibri_tui.option_rows.KNOBS", shown)  # the picture stays when options come
    assert take("f8", *["down"] * 3)


def test_keys(take):
    async def asked(pilot) -> None:
        await pilot.press(*"/keys", "enter")
        await pilot.pause()
        await pilot.press("down", "down", "enter", "ctrl+n")
        await pilot.pause()

    assert take(then=asked)


def test_profiles(take):
    async def listed(pilot) -> None:
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()

    assert take("alt+p", then=listed)


def test_practice_and_its_result(take):
    async def result(pilot) -> None:
        app = pilot.app
        run = practice.begin("coding")
        run.skip()
        run.off = practice.Totals(0, 900, 100, 0, 100, 10.0)
        run.on = practice.Totals(400, 530, 70, 0, 100, 9.0, 5_000_000)
        practice.save(practice.path_for("default", chat(app).conductor.model.key), run)
        chat(app).action_practice()
        await pilot.pause()
        assert isinstance(app.screen, PracticeScreen)

    assert take(then=result)
