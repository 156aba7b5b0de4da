"""Pictures of the screens. After a wanted change: `pytest tests/tui/screens/test_snapshots.py --snapshot-update`."""

import pytest

from colibri_tui import paths
from colibri_tui.conversations import Conversations
from colibri_tui.engine_link import EngineText, EngineTurn, LinkState
from colibri_tui.screens.engine_view import FRAME_SECONDS, shares
from colibri_tui.settings import Settings
from tests.tui.boards import fire
from tests.tui.screens.conftest import chat, load, settled
from tests.tui.scripted_link import TURN

ANSWER = """\
A router scores every expert and keeps the **top-k**:

```python
scores = x @ w
chosen = scores.argsort()[-k:]
```
"""


async def answering(pilot) -> None:
    """A conversation with one answer, and another one under way."""
    app = pilot.app
    screen = chat(app)
    await pilot.pause()
    load(app)
    engine = screen._engine
    screen.conductor.submit("How does the router choose experts?")
    fire(engine.board, seed=3)
    screen.post_message(EngineText(1, ANSWER, 20, pieces=("A", " router")))
    await pilot.pause()
    engine.state = LinkState.READY
    screen.conductor.hear(EngineTurn(1, TURN, ANSWER))
    await settled(pilot.app)
    screen.conductor.submit("And what happens on a miss?")
    screen.conductor.submit("What is a pin?")
    screen._ticker.stop()
    fire(engine.board, seed=4)
    screen.post_message(EngineText(2, "The expert is read from disk", 5, pieces=("The",)))
    await pilot.pause()
    for _ in range(2 * shares(FRAME_SECONDS)):
        screen._beat()
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size)))
def test_answering(scripted, snap_compare, size):
    assert snap_compare(scripted(), terminal_size=size, run_before=answering)


@pytest.mark.parametrize("opened", [False, True], ids=["folded", "opened"])
def test_reasoning(scripted, snap_compare, monkeypatch, opened):
    async def thinking(pilot) -> None:
        screen = chat(pilot.app)
        await pilot.pause()
        load(pilot.app)
        screen.conductor.session._now = lambda: clock[0]
        screen.conductor.submit("How many experts does a token need?")
        screen.conductor.hear(EngineText(1, "", 160, "\nThe router keeps the top-k.\n\nSo it is a matter of k.\n", 160))
        clock[0] = 12.0
        screen.conductor.hear(EngineText(1, "As many as the router's **top-k**.", 9))
        screen._engine.state = LinkState.READY
        screen.conductor.hear(EngineTurn(1, TURN, "As many"))
        await settled(pilot.app)
        screen.conductor.submit("Always?")
        screen._ticker.stop()
        screen.conductor.hear(EngineText(2, "", 30, "Unless --topp cuts some.", 30))
        if opened:
            await pilot.press("alt+t")
        await pilot.pause()

    clock = [0.0]
    assert snap_compare(scripted(), terminal_size=(80, 24), run_before=thinking)


def test_atlas_on_the_whole_screen(scripted, snap_compare):
    async def open_atlas(pilot) -> None:
        await answering(pilot)
        await pilot.press("f2", "o")
        await pilot.pause()

    assert snap_compare(scripted(), terminal_size=(80, 24), run_before=open_atlas)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("key", ["f3", "f4", "f5", "f12"])
def test_panes_on_the_whole_screen(scripted, snap_compare, size, key):
    async def enlarge(pilot) -> None:
        await answering(pilot)
        await pilot.press(key)
        await pilot.pause()

    assert snap_compare(scripted(), terminal_size=size, run_before=enlarge)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size)))
def test_a_chosen_expert(scripted, snap_compare, size):
    async def choose(pilot) -> None:
        await answering(pilot)
        await pilot.press("f2", "right", "right", "down")
        await pilot.pause()

    assert snap_compare(scripted(), terminal_size=size, run_before=choose)


def test_the_list_of_panes(scripted, snap_compare):
    async def open_list(pilot) -> None:
        await answering(pilot)
        await pilot.press("alt+l")
        await pilot.pause()

    assert snap_compare(scripted(), terminal_size=(120, 40), run_before=open_list)


def test_no_colours(scripted, snap_compare, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(scripted(), terminal_size=(120, 40), run_before=answering)


def test_ascii(scripted, snap_compare, tmp_path):
    app = scripted(settings=Settings(tmp_path / "s.toml", ascii=True))
    assert snap_compare(app, terminal_size=(120, 40), run_before=answering)


def test_tiers_in_light_colours(scripted, snap_compare, tmp_path):
    async def tiers(pilot) -> None:
        await answering(pilot)
        chat(pilot.app).action_view()
        await pilot.pause()

    app = scripted(settings=Settings(tmp_path / "s.toml", theme="colibri-light"))
    assert snap_compare(app, terminal_size=(120, 40), run_before=tiers)


def test_sixteen_colours(scripted, snap_compare, tmp_path):
    app = scripted(settings=Settings(tmp_path / "s.toml", theme="ansi16"))
    assert snap_compare(app, terminal_size=(120, 40), run_before=answering)


def test_help(scripted, snap_compare):
    assert snap_compare(scripted(), terminal_size=(120, 60), press=["f1"])


def test_conversations(scripted, snap_compare, home):
    store = Conversations(paths.database_path())
    store.add(store.create("olmoe-00000000", "default"), "user", "How does the router choose experts?")
    store.close()

    async def open_list(pilot) -> None:
        await pilot.press("ctrl+s")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()

    assert snap_compare(scripted(), terminal_size=(120, 40), run_before=open_list)
