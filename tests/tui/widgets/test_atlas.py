"""The atlas on the screen: what its segments say at each depth, and how little it repaints."""

import pyte
import pytest
from rich.color import ColorType
from textual.app import App, ComposeResult
from textual.geometry import Region

from colibri_tui.render.glyphs import ASCII, BLOCKS
from colibri_tui.render.halfblock import CellStrip
from colibri_tui.render.looks import Looks
from colibri_tui.render.picture import label_width
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Telemetry
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.atlas import Atlas
from engine.board import Board, Counter, Tier
from tests.tui.boards import fire, lived_in
from tests.tui.widgets.half_blocks import seen

PALETTE = builtin_themes()["colibri"].palette
LOOKS = {
    "truecolor": Looks(PALETTE, BLOCKS, Depth.TRUECOLOR),
    "256": Looks(PALETTE, BLOCKS, Depth.XTERM),
    "16": Looks(PALETTE, BLOCKS, Depth.ANSI),
    "mono": Looks(PALETTE, BLOCKS, Depth.MONO),
    "ascii": Looks(PALETTE, ASCII, Depth.MONO),
}


class Host(App[None]):
    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self.looks = looks

    def compose(self) -> ComposeResult:
        yield Atlas(self.looks)


def drawn(atlas: Atlas) -> list[str]:
    return [strip.text for strip in atlas.render_lines(atlas.size.region)]


def picture(atlas: Atlas, row: int = 1) -> str:
    """The cells of a row, without what stands beside them."""
    left = label_width(atlas._sample)
    return drawn(atlas)[row][left : left + atlas._grid.width]


def styles(atlas: Atlas):
    return [
        segment.style
        for strip in atlas.render_lines(atlas.size.region)
        for segment in strip
        if segment.style is not None
    ]


@pytest.fixture
def board() -> Board:
    return lived_in(6, 16)


@pytest.mark.parametrize("looks", LOOKS)
async def test_it_fills_exactly_its_space(board, looks):
    async with Host(LOOKS[looks]).run_test(size=(80, 24)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.focus()
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        for width, height in (80, 24), (30, 8), (20, 3), (5, 1):
            await pilot.resize_terminal(width, height)
            for key in "toto":
                await pilot.press(key)
                lines = atlas.render_lines(atlas.size.region)
                assert [strip.cell_length for strip in lines] == [width] * height


async def test_one_line_still_shows_the_model(board):
    async with Host(LOOKS["truecolor"]).run_test(size=(30, 1)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        assert drawn(atlas)[0].startswith("▀▀▀▀")


async def test_layer_numbers_are_the_models_own(board):
    async with Host(LOOKS["truecolor"]).run_test(size=(40, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, [3, 4, 5]).sample(live=True))
        labels = [line.split()[0] for line in drawn(atlas)[1:7:2]]
        assert labels == ["3", "4", "5"]


async def test_the_share_in_memory_stands_beside_each_layer():
    board = Board(2, 4)
    board.heat[0] = [6, 2, 2, 0]
    board.tier[0] = [Tier.PIN, Tier.CACHE, Tier.DISK, Tier.DISK]
    async with Host(LOOKS["truecolor"]).run_test(size=(60, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, [0, 1]).sample(live=False))
        lines = drawn(atlas)
        assert lines[1].rstrip().endswith("80%")
        assert not any(line.rstrip().endswith("%") for line in lines[2:])


@pytest.mark.parametrize(("looks", "kind"), [("truecolor", ColorType.TRUECOLOR), ("256", ColorType.EIGHT_BIT)])
async def test_heat_is_painted_in_the_ramps_own_colours(board, looks, kind):
    async with Host(LOOKS[looks]).run_test(size=(60, 4)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        cells = [style for style in styles(atlas) if style.bgcolor.type is kind]
        used = {style.bgcolor for style in cells} | {style.color for style in cells}
        ramp = {ink.at(LOOKS[looks].depth) for ink in PALETTE.heat}
        assert len(used & ramp) >= 4
        assert used & {ink.at(LOOKS[looks].depth) for ink in PALETTE.fired}


async def test_sixteen_colours_use_glyphs_and_only_named_colours(board):
    async with Host(LOOKS["16"]).run_test(size=(60, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.focus()
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        text = "".join(drawn(atlas)[1:7])
        assert {"░", "▒", "█", "■"} <= set(text)
        assert "▀" not in text
        await pilot.press("t")
        assert {"░", "▓", "█"} <= set("".join(drawn(atlas)[1:7]))
        for style in styles(atlas):
            for colour in (style.color, style.bgcolor):
                assert colour is None or colour.type in (ColorType.STANDARD, ColorType.DEFAULT)


@pytest.mark.parametrize("looks", ["mono", "ascii"])
async def test_without_colour_no_segment_has_one(board, looks):
    async with Host(LOOKS[looks]).run_test(size=(60, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.focus()
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        for keys in ("", "t", "o"):
            await pilot.press(*keys)
            assert all(style.color is None and style.bgcolor is None for style in styles(atlas))
            assert any(style.reverse for style in styles(atlas)), "fired experts are seen without colour"
        if looks == "ascii":
            assert all(line.isascii() for line in drawn(atlas))


def on_a_terminal(text: str):
    """What is seen of each column: colours of upper and lower half, or the character with its looks."""
    screen = pyte.Screen(60, 1)
    pyte.Stream(screen).feed(text)
    return seen(screen)


@pytest.mark.parametrize("looks", ["truecolor", "256", "16", "mono"])
async def test_ready_escape_sequences_show_what_the_segments_say(board, looks):
    async with Host(LOOKS[looks]).run_test(size=(60, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        atlas.focus()
        system = LOOKS[looks].color_system
        for height, keys in (10, "to"), (5, "to"):
            await pilot.resize_terminal(60, height)
            await pilot.press(*keys)
            rows = [row for row in atlas.render_lines(atlas.size.region) if isinstance(row, CellStrip)]
            assert len(rows) >= 3
            for strip in rows:
                ready = strip.render(pilot.app.console)
                plain = "".join(strip.render_style(segment.style, segment.text, system) for segment in strip)
                assert on_a_terminal(ready) == on_a_terminal(plain)


async def test_only_rows_that_changed_are_repainted(board, monkeypatch):
    async with Host(LOOKS["truecolor"]).run_test(size=(60, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        telemetry = Telemetry(board, range(6))
        atlas.show(telemetry.sample(live=False))
        await pilot.pause()
        asked = []
        monkeypatch.setattr(atlas, "refresh", lambda *regions, **_: asked.append(regions))
        atlas.show(telemetry.sample(live=False))
        assert asked == []
        board.tier[2] = Tier.NONE
        board.tier[3] = Tier.NONE
        board.tier[5] = Tier.NONE
        atlas.show(telemetry.sample(live=False))
        assert asked == [(Region(0, 3, 60, 2), Region(0, 6, 60, 1))]


async def test_ranks_are_sorted_anew_only_when_a_turn_has_ended(board):
    async with Host(LOOKS["mono"]).run_test(size=(60, 10)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.focus()
        telemetry = Telemetry(board, range(6))
        atlas.show(telemetry.sample(live=False))
        await pilot.press("o")
        hottest = "█" * atlas._grid.repeat
        assert all("by use" in line for line in drawn(atlas)[:1])
        before = drawn(atlas)[1]
        coldest = int(board.heat[0].argmin())
        board.heat[0, coldest] = board.heat.max()
        atlas.show(telemetry.sample(live=True))
        assert drawn(atlas)[1] != before
        assert picture(atlas).endswith(hottest), "still the last in its row"
        atlas.show(telemetry.sample(live=False), settled=True)
        assert drawn(atlas)[1].split()[1].startswith(hottest)


async def test_another_model_is_laid_out_anew(board):
    async with Host(LOOKS["truecolor"]).run_test(size=(60, 12)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, range(6)).sample(live=False))
        atlas.show(Telemetry(lived_in(3, 40), range(3)).sample(live=False))
        assert "3 x 40 experts" in drawn(atlas)[0]
        atlas.clear()
        assert "".join(drawn(atlas)).strip() == ""


async def test_part_of_the_atlas_can_be_drawn(board):
    async with Host(LOOKS["truecolor"]).run_test(size=(60, 12)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.show(Telemetry(board, range(6)).sample(live=False))
        whole = atlas.render_lines(atlas.size.region)
        part = atlas.render_lines(Region(10, 2, 20, 3))
        assert [strip.text for strip in part] == [strip.text[10:30] for strip in whole[2:5]]


async def test_new_looks_and_sizes_are_followed(board):
    async with Host(LOOKS["truecolor"]).run_test(size=(60, 12)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        fire(board)
        atlas.show(Telemetry(board, range(6)).sample(live=True))
        atlas.looks = LOOKS["ascii"]
        assert drawn(atlas)[1].isascii()
        await pilot.resize_terminal(40, 8)
        assert [strip.cell_length for strip in atlas.render_lines(atlas.size.region)] == [40] * 8
        assert board.counters[Counter.CLOCK] > 0
