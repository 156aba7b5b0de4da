import pytest
from textual.app import App, ComposeResult

from colibri_tui.render.glyphs import ASCII, BLOCKS
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Reads
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.hit_bar import HitBar
from engine.events import Hits

PALETTE = builtin_themes()["colibri"].palette
TURN = Reads(Hits(60, 30, 10), Hits(0, 0, 100), 5_000_000, 1_250_000.0)
EVER = Reads(Hits(600, 300, 100), Hits(0, 0, 100), 9_000_000)


class Host(App[None]):
    def __init__(self, height: int, looks: Looks) -> None:
        super().__init__()
        self.height, self.looks = height, looks

    def compose(self) -> ComposeResult:
        bar = HitBar(self.looks)
        bar.styles.height = self.height
        yield bar


async def lines(height: int, turn=TURN, ever=EVER, *, looks=None, width=60) -> list[str]:
    looks = looks or Looks(PALETTE, BLOCKS, Depth.TRUECOLOR)
    async with Host(height, looks).run_test(size=(width, max(height, 2))) as pilot:
        bar = pilot.app.query_one(HitBar)
        bar.show(turn, ever)
        await pilot.pause()
        return [strip.text.rstrip() for strip in bar.render_lines(bar.size.region)]


async def test_total_first_then_answer_and_prompt_apart():
    shown = await lines(9)
    assert [line.split()[0] for line in shown] == [
        "this", "total", "answer", "prompt", "since", "total", "answer", "prompt", "read",
    ]  # fmt: skip
    assert shown[1].endswith("  30  15  55%")
    assert shown[2].endswith("  60  30  10%")
    assert shown[3].endswith("   0   0 100%")
    assert shown[6].endswith("  60  30  10%")
    assert shown[8] == "read    1.25 MB a token, 5.00 MB this answer, 9.00 MB in all"


async def test_bars_have_a_fixed_scale():
    shown = await lines(9)
    room = 60 - 8 - 13
    for line in shown[1:4]:
        assert sum(line[8 : 8 + room].count(glyph) for glyph in "█▓░") == room
    assert shown[3][8 : 8 + room] == "░" * room


async def test_with_less_room_the_running_answer_stays():
    assert [line.split()[0] for line in await lines(5)] == ["this", "total", "answer", "prompt", "read"]


async def test_one_line_says_it_in_words():
    assert await lines(1) == ["hit 45% █pin 30 ▓cache 15 ░disk 55"]


async def test_before_the_first_turn_nothing_is_invented():
    nothing = Reads(Hits(), Hits(), 0)
    assert await lines(1, nothing, nothing) == ["no expert used yet"]
    assert (await lines(9, nothing, nothing))[1] == "total   nothing yet"
    assert (await lines(1, nothing, EVER))[0].startswith("hit 82%"), "the last figures known"


@pytest.mark.parametrize("width", [5, 20, 30])
async def test_narrow_bars_do_not_break(width):
    assert len(await lines(9, width=width)) == 9


async def test_ascii_without_colour():
    shown = await lines(9, looks=Looks(PALETTE, ASCII, Depth.MONO))
    assert all(line.isascii() for line in shown)
    assert {"#", "+", "-"} <= set(shown[1])


async def test_a_forgotten_model_leaves_no_figures():
    async with Host(9, Looks(PALETTE, BLOCKS, Depth.TRUECOLOR)).run_test(size=(60, 9)) as pilot:
        bar = pilot.app.query_one(HitBar)
        bar.show(TURN, EVER)
        bar.clear()
        await pilot.pause()
        assert all(not strip.text.strip() for strip in bar.render_lines(bar.size.region))
