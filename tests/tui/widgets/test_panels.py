import pytest
from textual.app import App, ComposeResult

from colibri_tui.render.glyphs import BLOCKS
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Telemetry
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.panels import Panel
from tests.tui.boards import lived_in

LOOKS = Looks(builtin_themes()["colibri"].palette, BLOCKS, Depth.TRUECOLOR)


class Host(App[None]):
    CSS = "#column HitBar { height: 9; margin: 1 0 0 0; } #column.-brief HitBar { height: 5; }"

    def compose(self) -> ComposeResult:
        yield Panel(LOOKS, id="column")


@pytest.mark.parametrize(
    ("layers", "brief", "rows"),
    [(20, False, 20), (26, False, 26), (27, True, 27), (30, True, 30), (31, False, 16)],
)
async def test_the_second_block_of_figures_gives_way_to_a_row_for_each_layer(layers, brief, rows):
    sample = Telemetry(lived_in(layers, 24), range(layers)).sample(live=False)
    async with Host().run_test(size=(56, 38)) as pilot:
        panel = pilot.app.query_one(Panel)
        await pilot.pause()
        panel.show(sample, sample.turn)
        await pilot.pause()
        assert panel.has_class("-brief") is brief
        assert panel.atlas._grid.rows == rows


async def test_nothing_is_drawn_for_nobody():
    sample = Telemetry(lived_in(4, 8), range(4)).sample(live=False)
    async with Host().run_test(size=(56, 38)) as pilot:
        panel = pilot.app.query_one(Panel)
        panel.display = False
        panel.show(sample, sample.turn)
        assert panel.atlas._sample is None
        panel.display = True
        panel.show(sample, sample.turn)
        assert panel.atlas._sample is sample
        panel.clear()
        assert panel.atlas._sample is None
