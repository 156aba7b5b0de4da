"""Pins that were exchanged, experts that the cache let go too early, and those read ahead."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from textual.content import Content

from colibri_tui.render.bars import joined
from colibri_tui.render.units import tokens
from colibri_tui.scene import Scene
from colibri_tui.telemetry import BY, Ahead
from colibri_tui.trail import Trail
from colibri_tui.widgets.panes.pane import TextPane
from engine.board import Tier
from engine.events import Repin
from engine.routes import NOBODY

TOLD = 3
"""Experts read again that are named, at most."""


class Again(NamedTuple):
    """An expert that was read so often within the last tokens. layer: index into the layers with a router."""

    layer: int
    expert: int
    times: int


def read_again(trail: Trail) -> list[Again]:
    """Return the experts that were read from disk most often, at most `TOLD`, and more than once."""
    layers, ids = trail.ids.shape[1], trail.ids
    which = (trail.found == Tier.DISK) & (ids != NOBODY)
    experts = int(ids.max(initial=0)) + 1
    keys = (ids + experts * np.arange(layers, dtype=np.int32)[:, None])[which]
    counts = np.bincount(keys, minlength=1)
    often = np.flatnonzero(counts > 1)
    worst = often[np.argsort(-counts[often], kind="stable")][:TOLD]
    return [Again(*divmod(int(key), experts), int(counts[key])) for key in worst]


def ahead_lines(ahead: Ahead, width: int) -> list[Content]:
    """How well the next layer's experts are foreseen, by what; and what reading them ahead is good for."""
    recall = ", ".join(f"{BY[by]} {found / wanted:.0%}" for by, (found, wanted) in ahead.recall.items())
    head = Content.assemble(("look-ahead: ", "bold"), f"foreseen by {recall}" if recall else "foresaw nothing yet")
    if not ahead.reads:
        return [head + Content.styled("; reads nothing", "$text-muted")]
    gain = "not worth it here"
    if ahead.by:
        gain = f"{'saves' if ahead.gain >= 0 else 'costs'} {abs(ahead.gain):.0%} of the time"
    words = [f"{ahead.reads:,} read, {ahead.wasted:,} in vain"]
    if ahead.by:
        words.append(f"by {BY[ahead.by]}")
    return [head, Content.assemble(f"  {gain}", (joined(["", *words], width - len(gain) - 2, ", "), "$text-muted"))]


class SwapsPane(TextPane):
    """The newest exchange first, and what the cache should have kept."""

    NAME, TITLE = "swaps", "swaps"
    HELP_LINE = "Pins that made room for hotter experts, and experts the cache let go too early"
    LEAST, MOST = 4, 12

    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return evictions, then exchanges."""
        sample, history = scene.sample, scene.history
        rate = f", {sample.evictions / sample.tokens:.1f} a token" if sample.tokens else ""
        lines = [Content.styled(f"evicted {sample.evictions:,} this answer{rate}", "$text-muted")]
        done, wanted = sample.loading
        if done < wanted:
            lines.append(Content.styled(f"loading experts in the background: {done:,} of {wanted:,}", "$text-muted"))
        if sample.ahead is not None:
            lines += ahead_lines(sample.ahead, width)
        again = read_again(scene.trail)
        if again:
            title, of = "let go too early: ", f" in {tokens(len(scene.trail))}"
            named = [f"L{sample.layers[a.layer]} E{a.expert} {a.times}x" for a in again]
            worst = joined(named, width - len(title), ", ")
            fits = len(title) + len(worst) + len(of) <= width
            lines.append(Content.assemble((title, "$warning"), worst, (of if fits else "", "$text-muted")))
        if history.swaps:
            return lines + [self._swap(answer, swap) for answer, swap in reversed(history.swaps)]
        words = "no pin was exchanged yet" if scene.options.repin else "pins stay as they are: --repin is off"
        return [*lines, Content.styled(words, "$text-muted")]

    def _swap(self, answer: int, swap: Repin) -> Content:
        arrow = self.looks.glyphs.arrow
        return Content.assemble(
            (f"answer {answer}  ", "$text-muted"),
            (f"L{swap.layer} ", "bold"),
            f"E{swap.out} {arrow} ",
            (f"E{swap.in_}", "$accent"),
            (f"  heat {swap.out_heat} {arrow} {swap.in_heat}  {swap.ms:.1f} ms", "$text-muted"),
        )
