import pytest
from textual.app import App, ComposeResult

from colibri_tui.render.glyphs import BLOCKS
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Telemetry
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.hud import Hud
from tests.tui.boards import lived_in

LOOKS = Looks(builtin_themes()["colibri"].palette, BLOCKS, Depth.TRUECOLOR)


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield Hud(LOOKS)


async def test_nothing_is_drawn_for_nobody():
    sample = Telemetry(lived_in(4, 8), range(4)).sample(live=False)
    async with Host().run_test(size=(80, 3)) as pilot:
        hud = pilot.app.query_one(Hud)
        hud.display = False
        hud.show(sample, sample.turn)
        assert hud.atlas._sample is None
        hud.display = True
        hud.show(sample, sample.turn)
        assert hud.atlas._sample is sample
        hud.clear()
        assert hud.atlas._sample is None


@pytest.mark.parametrize("width", [50, 60, 69, 70, 99])
async def test_the_atlas_is_there_when_there_is_room_for_it(width):
    async with Host().run_test(size=(width, 3)) as pilot:
        await pilot.pause()
        assert pilot.app.query_one(Hud).atlas.display is (width >= 70)
