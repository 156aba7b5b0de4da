"""What moves by itself comes in pieces, and after the keys."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from colibri_tui import keys_first
from colibri_tui.screens.engine_view import (
    CALM_FRAME_SECONDS,
    FRAME_SECONDS,
    LEAST_SHARES,
    REMOTE_FRAME_SECONDS,
    shares,
)
from colibri_tui.widgets.panes.pane import Pane
from tests.tui.boards import fire
from tests.tui.screens.conftest import chat, load, until


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of panes as they are drawn."""
    names: list[str] = []

    def noted(pane: Pane, draw: Callable[..., None]) -> Callable[..., None]:
        return lambda *given, **named: (names.append(pane.NAME), draw(*given, **named))[1]

    monkeypatch.setattr(Pane, "on_mount", lambda self: setattr(self, "draw", noted(self, self.draw)), raising=False)
    return names


async def answering(app) -> None:
    load(app)
    chat(app).conductor.submit("hello")
    await until(lambda: chat(app)._ticker)
    chat(app)._ticker.stop()
    chat(app)._beats = 0


async def test_between_two_frames_of_the_map_a_share_of_the_figures_is_drawn(scripted, drawn):
    app = scripted()
    async with app.run_test(size=(200, 60)) as pilot:
        await answering(app)
        await pilot.pause()
        app.typed = -1.0
        beats = []
        for _ in range(2 * shares(FRAME_SECONDS)):
            drawn.clear()
            fire(chat(app)._engine.board)
            chat(app)._beat()
            beats.append(list(drawn))
        assert beats[::2] == [["atlas"]] * shares(FRAME_SECONDS)
        others = [pane.NAME for pane in chat(app).side.seen() if pane.NAME != "atlas"]
        assert sorted(name for beat in beats[1::2] for name in beat) == sorted(others)
        assert max(map(len, beats)) <= 2


def test_figures_are_renewed_twice_a_second_and_never_all_at_once():
    assert shares(FRAME_SECONDS) == 5
    assert shares(REMOTE_FRAME_SECONDS) == shares(CALM_FRAME_SECONDS) == LEAST_SHARES > 1


async def test_nothing_moves_while_a_key_is_on_its_way(scripted, drawn, monkeypatch):
    now = [1000.0]
    for module in ("keys_first", "app"):
        monkeypatch.setattr(f"colibri_tui.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answering(app)
        await pilot.press("x")
        assert app.typed == now[0]
        drawn.clear()
        chat(app)._beat()
        assert drawn == []
        now[0] += keys_first.HOLD_SECONDS
        chat(app)._beat()
        assert drawn == ["atlas"]


async def test_an_answer_waits_for_a_key(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await answering(app)
        await pilot.pause()
        tail = chat(app).transcript._tail
        await pilot.press("x")
        held = keys_first.hold(app) > 0
        chat(app).show_text("words")
        assert (tail._stream.source == "") is held
        await until(lambda: tail._stream.source == "words")
