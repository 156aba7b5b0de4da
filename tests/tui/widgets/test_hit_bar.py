import pytest
from textual.app import App, ComposeResult

from colibri_tui.render.glyphs import ASCII, BLOCKS
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Reads
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.hit_bar import HitBar, block, one_line, read_line
from engine.events import Hits

PALETTE = builtin_themes()["colibri"].palette
TURN = Reads(Hits(60, 30, 10), Hits(0, 0, 100), 5_000_000, 1_250_000.0)
EVER = Reads(Hits(600, 300, 100), Hits(0, 0, 100), 9_000_000)


LOOKS = Looks(PALETTE, BLOCKS, Depth.TRUECOLOR)


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield HitBar(LOOKS)


def lines(turn=TURN, ever=EVER, *, looks=LOOKS, width=60) -> list[str]:
    shown = [
        *block("this answer", turn, looks, width), *block("since loading", ever, looks, width),
        read_line(turn, ever, width),
    ]  # fmt: skip
    return [line.plain.rstrip() for line in shown]


def test_total_first_then_answer_and_prompt_apart():
    shown = lines()
    assert [line.split()[0] for line in shown] == [
        "this", "total", "answer", "prompt", "since", "total", "answer", "prompt", "read",
    ]  # fmt: skip
    assert shown[1].endswith("  30  15  55%")
    assert shown[2].endswith("  60  30  10%")
    assert shown[3].endswith("   0   0 100%")
    assert shown[6].endswith("  60  30  10%")
    assert shown[8] == "read    1.25 MB a token, 5.00 MB this answer, 9.00 MB in all"


def test_bars_have_a_fixed_scale():
    shown = lines()
    room = 60 - 8 - 13
    for line in shown[1:4]:
        assert sum(line[8 : 8 + room].count(glyph) for glyph in "█▓░") == room
    assert shown[3][8 : 8 + room] == "░" * room


def test_one_line_says_it_in_words():
    assert one_line(TURN.total, LOOKS).plain == "hit 45% █ pin 30 ▓ cache 15 ░ disk 55"


def test_before_the_first_turn_nothing_is_invented():
    nothing = Reads(Hits(), Hits(), 0)
    assert one_line(Hits(), LOOKS).plain == "no expert used yet"
    assert lines(nothing, nothing)[0] == "this answer  nothing yet"


@pytest.mark.parametrize("width", [5, 20, 30])
def test_narrow_bars_do_not_break(width):
    assert len(lines(width=width)) == 9


def test_ascii_without_colour():
    shown = lines(looks=Looks(PALETTE, ASCII, Depth.MONO))
    assert all(line.isascii() for line in shown)
    assert {"#", "+", "-"} <= set(shown[1])


async def test_without_figures_of_this_answer_the_last_ones_known_are_shown_until_the_model_is_forgotten():
    async with Host().run_test(size=(60, 2)) as pilot:
        bar = pilot.app.query_one(HitBar)

        def shown() -> str:
            return bar.render_lines(bar.size.region)[0].text.strip()

        bar.show(Reads(Hits(), Hits(), 0), EVER)
        await pilot.pause()
        assert shown().startswith("hit 82%")
        bar.clear()
        await pilot.pause()
        assert not shown()
