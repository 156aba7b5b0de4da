"""The memory plan as a bar."""

import pytest

from colibri_tui.render.glyphs import ASCII, BLOCKS, Glyphs
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.panes.tiers import plan_lines, plan_parts
from tests.tui.scripted_link import PLAN

PALETTE = builtin_themes()["colibri"].palette


@pytest.mark.parametrize(("glyphs", "depth"), [(ASCII, Depth.TRUECOLOR), (ASCII, Depth.MONO), (BLOCKS, Depth.MONO)])
def test_parts_are_told_apart_without_shades(glyphs: Glyphs, depth: Depth):
    looks = Looks(PALETTE, glyphs, depth)
    marks = [mark for _, _, (mark, _) in plan_parts(PLAN, looks)]
    assert len(set(marks)) == len(marks)
    bar = plan_lines(PLAN, looks, 60)[0].plain
    if glyphs is ASCII:
        assert bar.isascii()
