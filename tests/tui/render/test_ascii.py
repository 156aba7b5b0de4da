"""Terminals that have ASCII only."""

from colibri_tui.render import blocks
from colibri_tui.render.ascii import in_ascii


def test_a_bar_tells_how_far_it_is():
    assert in_ascii("━━──") == "==--"


def test_the_mark_of_a_line_of_code_that_goes_on_is_ascii():
    assert in_ascii("".join(text for text, _ in blocks._CONTINUED)) == "> "
