"""What the pane of swaps says of reading ahead."""

from __future__ import annotations

from dataclasses import replace

from colibri_tui.telemetry import Ahead
from colibri_tui.widgets.panes.speed import ahead_words
from colibri_tui.widgets.panes.swaps import ahead_lines
from engine.board import Foreseer

RECALL = {Foreseer.ROUTER: (90, 100), Foreseer.PAIRS: (71, 100)}
WORTH_IT = Ahead(RECALL, reads=1200, useful=1000, wasted=150, by=Foreseer.PAIRS, gain=0.12)
MEASURED = Ahead({Foreseer.ROUTER: (3, 4)}, 0, 0, 0, by=Foreseer.NONE, gain=0.0)


def plain(ahead: Ahead) -> str:
    return "\n".join(line.plain for line in ahead_lines(ahead))


def test_what_was_foreseen_and_what_it_saves():
    assert plain(WORTH_IT) == (
        "look-ahead: foreseen by router 90%, pairs 71%\n"
        "  1,200 read, 1,000 used, 150 in vain; by pairs, saves 12% of the time"
    )
    assert ahead_words(WORTH_IT) == "  foreseen: router 90% pairs 71%, 1,000 of 1,200 reads used"


def test_a_loss_is_said_to_be_one():
    assert plain(replace(WORTH_IT, gain=-0.05, by=Foreseer.BOTH)).endswith("by router and pairs, costs 5% of the time")
    assert plain(replace(WORTH_IT, by=Foreseer.NONE)).endswith("in vain; not worth it here")


def test_where_it_is_only_measured():
    assert plain(MEASURED) == "look-ahead: foreseen by router 75%; reads nothing"
    assert ahead_words(MEASURED) == "  foreseen: router 75%"
    assert plain(replace(MEASURED, recall={})).startswith("look-ahead: foresaw nothing yet")
    assert ahead_words(replace(MEASURED, recall={})) == ""
