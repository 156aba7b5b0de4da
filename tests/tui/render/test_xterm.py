"""The theme's colours among xterm's 256."""

from __future__ import annotations

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from colibri_tui.render.xterm import XtermFilter, ground, nearest
from colibri_tui.themes import builtin_themes

GROUND = Color(0, 0, 0)


@pytest.mark.parametrize(("rgb", "index"), [((0, 0, 0), 16), ((255, 255, 255), 231), ((255, 175, 95), 215)])
def test_colours_that_are_there_are_kept(rgb, index):
    assert nearest(*rgb) == index


@pytest.mark.parametrize("name", ["colibri", "colibri-light", "ember", "okabe", "contrast"])
def test_grounds_that_are_nearly_grey_get_no_hue_of_their_own(name):
    theme = builtin_themes()[name].theme
    for colour in (theme.background, theme.surface, theme.panel):
        assert nearest(*Color.parse(colour).rgb) in (16, 231, *range(232, 256)), colour


@pytest.mark.parametrize("name", ["colibri", "colibri-light", "ember", "okabe", "contrast"])
def test_what_is_drawn_past_the_filter_has_the_same_ground(name):
    for colour in (builtin_themes()[name].theme.background, "#f0f0f2", "#204060"):
        there = ground(colour)
        assert nearest(*Color.parse(there).rgb) == RichColor.parse(there).downgrade(ColorSystem.EIGHT_BIT).number


def test_a_line_keeps_its_text_its_attributes_and_colours_chosen_by_number():
    blue = RichColor.from_ansi(67)
    line = [Segment("ready", Style.parse("bold #63c7a2 on #1a2330")), Segment("▀", Style(color=blue)), Segment("x")]
    ready, cell, bare = XtermFilter().apply(line, GROUND)
    assert (ready.text, cell, bare) == ("ready", line[1], line[2])
    assert ready.style is not None
    assert ready.style.bold
    assert ready.style.color is not None
    assert ready.style.color.number == nearest(0x63, 0xC7, 0xA2)
    assert ready.style.bgcolor is not None
    assert ready.style.bgcolor.number == 235
