"""What the pane of swaps says of reading ahead."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from colibri_tui.telemetry import Ahead
from colibri_tui.trail import Trail
from colibri_tui.widgets.panes.speed import ahead_words
from colibri_tui.widgets.panes.swaps import TOLD, ahead_lines, read_again
from engine.board import Foreseer, Tier
from engine.routes import NOBODY

LAYERS, TOKENS, TOP_K = 3, 40, 4


def trail(rng: np.random.Generator) -> Trail:
    """Tokens that chose at random, some of them fewer experts, found on disk every other time."""
    shape = (TOKENS, LAYERS, TOP_K)
    ids = rng.integers(NOBODY, 6, shape).astype(np.int16)
    found = rng.choice([Tier.DISK, Tier.CACHE], shape).astype(np.uint8)
    times = np.zeros(shape[:2], np.float32)
    return Trail(np.arange(TOKENS), ids, np.zeros(shape, np.float32), found, times, times, np.zeros((TOKENS, 4)))


def test_those_read_most_often_are_named():
    seen = trail(np.random.default_rng(5))
    counts = Counter(
        (layer, int(expert))
        for token in range(TOKENS)
        for layer in range(LAYERS)
        for expert, tier in zip(seen.ids[token, layer], seen.found[token, layer], strict=True)
        if tier == Tier.DISK and expert != NOBODY
    )
    told = read_again(seen)
    assert all(counts[again.layer, again.expert] == again.times for again in told)
    assert [again.times for again in told] == sorted(counts.values(), reverse=True)[:TOLD]


def test_none_is_named_when_each_was_read_once():
    seen = trail(np.random.default_rng(5))
    once = replace(seen, ids=np.arange(LAYERS * TOP_K, dtype=np.int16).reshape(1, LAYERS, TOP_K), found=seen.found[:1])
    assert read_again(once) == []
    assert read_again(replace(seen, ids=seen.ids[:0], found=seen.found[:0])) == []


RECALL = {Foreseer.ROUTER: (90, 100), Foreseer.PAIRS: (71, 100)}
WORTH_IT = Ahead(RECALL, reads=1200, useful=1000, wasted=150, by=Foreseer.PAIRS, gain=0.12)
MEASURED = Ahead({Foreseer.ROUTER: (3, 4)}, 0, 0, 0, by=Foreseer.NONE, gain=0.0)


def plain(ahead: Ahead, width: int = 80) -> str:
    return "\n".join(line.plain for line in ahead_lines(ahead, width))


def test_what_was_foreseen_and_what_it_saves():
    assert plain(WORTH_IT) == (
        "look-ahead: foreseen by router 90%, pairs 71%\n  saves 12% of the time, 1,200 read, 150 in vain, by pairs"
    )
    assert plain(WORTH_IT, 50).endswith("  saves 12% of the time, 1,200 read, 150 in vain")
    assert ahead_words(WORTH_IT) == "foreseen: router 90% pairs 71%, 1,000 of 1,200 reads used"


def test_a_loss_is_said_to_be_one():
    assert plain(replace(WORTH_IT, gain=-0.05, by=Foreseer.BOTH)).endswith(
        "costs 5% of the time, 1,200 read, 150 in vain, by router and pairs"
    )
    assert plain(replace(WORTH_IT, by=Foreseer.NONE)).endswith("not worth it here, 1,200 read, 150 in vain")


def test_where_it_is_only_measured():
    assert plain(MEASURED) == "look-ahead: foreseen by router 75%; reads nothing"
    assert ahead_words(MEASURED) == "foreseen: router 75%"
    assert plain(replace(MEASURED, recall={})).startswith("look-ahead: foresaw nothing yet")
    assert ahead_words(replace(MEASURED, recall={})) == ""
