"""What is written over the last picture leaves the terminal as a repaint of all would."""

import pyte
import pytest
from rich.color import ColorSystem
from textual.app import App, ComposeResult
from textual.drivers.headless_driver import HeadlessDriver
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Static

from colibri_tui.render.glyphs import ASCII, BLOCKS
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Telemetry
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets import atlas as atlas_module
from colibri_tui.widgets.atlas import Atlas
from engine.board import Tier
from tests.tui.boards import fire, lived_in
from tests.tui.widgets.half_blocks import seen

PALETTE = builtin_themes()["colibri"].palette
SIZE = (70, 16)


class TerminalDriver(HeadlessDriver):
    """A driver that behaves like one with a terminal, and keeps what it is told to write."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.screen = pyte.Screen(*SIZE)
        self._stream = pyte.Stream(self.screen)
        self.characters = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.characters += len(data)
        self._stream.feed(data)


class Host(App[None]):
    CSS = """
    Atlas { margin: 1 2 1 3; }
    #over { layer: top; dock: top; width: 20; height: 6; offset: 9 4; display: none; }
    Screen { layers: below top; }
    Atlas { layer: below; }
    """

    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self.looks = looks
        self.console._color_system = looks.color_system  # as it is on a terminal with these looks

    def _build_driver(self, headless, inline, mouse, size) -> TerminalDriver:
        return TerminalDriver(self, size=size)

    def compose(self) -> ComposeResult:
        yield Atlas(self.looks)
        yield Static("before the map\n" * 6, id="over")


class Question(ModalScreen[None]):
    def compose(self) -> ComposeResult:
        yield Static("a question\n" * 8)


def repainted(app: App[None], system: ColorSystem) -> list:
    """The same of a terminal on which all is drawn from nothing, segment by segment."""
    screen = pyte.Screen(*SIZE)
    stream = pyte.Stream(screen)
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        stream.feed(f"\x1b[{y + 1};1H")
        stream.feed("".join(Strip.render_style(part.style, part.text, system) for part in strip))
    return seen(screen)


@pytest.mark.parametrize(
    ("layers", "experts", "depth", "glyphs"),
    [
        (24, 40, Depth.TRUECOLOR, BLOCKS),
        (24, 300, Depth.XTERM, BLOCKS),
        (5, 8, Depth.TRUECOLOR, BLOCKS),
        (10, 60, Depth.ANSI, BLOCKS),
        (5, 8, Depth.MONO, ASCII),
    ],
)
async def test_the_terminal_shows_what_a_repaint_would(layers, experts, depth, glyphs, monkeypatch):
    board = lived_in(layers, experts)
    telemetry = Telemetry(board, range(layers))
    written = []
    overwrite = atlas_module.overwrite
    monkeypatch.setattr(atlas_module, "overwrite", lambda *given: (written.append(given), overwrite(*given)))
    looks = Looks(PALETTE, glyphs, depth)
    app = Host(looks)
    async with app.run_test(size=SIZE) as pilot:
        atlas, over = app.query_one(Atlas), app.query_one("#over")
        atlas.focus()
        seed = 100

        async def frames(*, overwrites: bool) -> None:
            nonlocal seed
            del written[:]
            for _ in range(4):
                fire(board, seed=(seed := seed + 1))
                board.tier[seed % layers, seed % experts] = Tier.PIN
                atlas.show(telemetry.sample(live=True))
                if overwrites:  # at once
                    assert seen(app._driver.screen) == repainted(app, looks.color_system)
            assert bool(written) == overwrites
            await pilot.pause()
            assert seen(app._driver.screen) == repainted(app, looks.color_system)

        atlas.show(telemetry.sample(live=True))
        await pilot.pause()
        await frames(overwrites=True)
        await pilot.press("t")
        await frames(overwrites=True)
        await pilot.press("t", "o")
        await frames(overwrites=True)
        over.display = True
        await pilot.pause()
        await frames(overwrites=False)
        over.display = False
        await pilot.pause()
        await frames(overwrites=True)
        await app.push_screen(Question())
        await pilot.pause()
        await frames(overwrites=False)
        app.pop_screen()
        await pilot.pause()
        await frames(overwrites=True)
        with app.batch_update():
            fire(board, seed=3)
            atlas.show(telemetry.sample(live=True))
        await pilot.pause()
        assert seen(app._driver.screen) == repainted(app, looks.color_system)
        await pilot.press("right", "down", "right")
        await pilot.pause()
        for _ in range(3):
            fire(board, seed=(seed := seed + 1))
            atlas.show(telemetry.sample(live=True))
            await pilot.pause()
            assert seen(app._driver.screen) == repainted(app, looks.color_system)


async def test_a_frame_is_small(monkeypatch):
    board = lived_in(24, 60)
    telemetry = Telemetry(board, range(24))
    app = Host(Looks(PALETTE, BLOCKS, Depth.TRUECOLOR))
    async with app.run_test(size=SIZE) as pilot:
        atlas = app.query_one(Atlas)
        atlas.show(telemetry.sample(live=True))
        await pilot.pause()
        app._driver.characters = 0
        atlas.refresh()
        await pilot.pause()
        whole = app._driver.characters
        sizes = []
        for seed in range(5):
            fire(board, seed=seed)
            app._driver.characters = 0
            atlas.show(telemetry.sample(live=True))
            await pilot.pause()
            sizes.append(app._driver.characters)
        assert 0 < max(sizes) < whole / 2
