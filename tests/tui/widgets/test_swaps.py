"""What the pane of swaps says of reading ahead."""

from __future__ import annotations

from dataclasses import replace

from colibri_tui.telemetry import Ahead
from colibri_tui.widgets.panes.swaps import ahead_line

WORTH_IT = Ahead(found=90, wanted=100, reads=1200, useful=1000, wasted=150, on=True, gain=0.12)


def test_what_was_foreseen_and_what_it_saves():
    assert ahead_line(WORTH_IT).plain == (
        "look-ahead: foresaw 90%, 1,200 read, 1,000 used, 150 in vain; saves 12% of the time"
    )


def test_a_loss_is_said_to_be_one():
    assert ahead_line(replace(WORTH_IT, gain=-0.05)).plain.endswith("costs 5% of the time")
    assert ahead_line(replace(WORTH_IT, on=False)).plain.endswith("not worth it here")


def test_where_it_is_only_measured():
    assert ahead_line(Ahead(3, 4, 0, 0, 0, on=False, gain=0.0)).plain == "look-ahead: foresaw 75%; reads nothing"
    assert ahead_line(Ahead(0, 0, 0, 0, 0, on=False, gain=0.0)).plain.startswith("look-ahead: foresaw nothing yet")
