"""Speed, and what each of the last tokens' time went to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
from textual.content import Content

from colibri_tui.render.bars import joined
from colibri_tui.render.clean import clean
from colibri_tui.render.columns import stacks
from colibri_tui.render.looks import Looks
from colibri_tui.render.units import rate, seconds, tokens
from colibri_tui.scene import Scene
from colibri_tui.telemetry import BY, Ahead
from colibri_tui.trail import Trail
from colibri_tui.widgets.panes.pane import TextPane
from engine.routes import Part

PARTS: Final = (
    (Part.READ, "read", "$warning", "R"),
    (Part.EXPERTS, "experts", "$primary", "e"),
    (Part.ATTENTION, "attention", "$accent", "a"),
    (Part.OTHER, "other", "$text-muted", "."),
)
"""Part, word, colour, and the letter where there are no colours."""
OUTLIER = 4
"""The chart ends at this many times the median: one slow token does not flatten the others."""
SCALE = 9
"""Columns at the left of the chart."""


def milliseconds(value: float) -> str:
    """Return '0.42 ms', '5.1 ms', '182 ms' or '2.4 s'."""
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms" if value < 9.95 else f"{value:.0f} ms"


def stack_lines(picture: npt.NDArray[np.int8], looks: Looks) -> list[Content]:
    """Return a picture of `stacks` as lines, the top one first; with half blocks two pieces make a row."""
    colours = [colour for _, _, colour, _ in PARTS]
    letters = [letter for _, _, _, letter in PARTS]
    if not looks.halves:
        pieces = [
            [(letters[part], colours[part]) if part >= 0 else (" ", "") for part in row] for row in picture.tolist()
        ]
        return [_joined(row) for row in reversed(pieces)]
    return [
        _joined([_half(top, low, colours) for top, low in zip(upper, lower, strict=True)])
        for upper, lower in zip(picture[::-2].tolist(), picture[-2::-2].tolist(), strict=True)
    ]


def _joined(pieces: Sequence[tuple[str, str]]) -> Content:
    """Return equal neighbours as one span: every span costs time to draw."""
    return Content.assemble(*((piece[0] * len(list(run)), piece[1]) for piece, run in groupby(pieces)))


def _half(top: int, low: int, colours: list[str]) -> tuple[str, str]:
    if top < 0:
        return ("▄", colours[low]) if low >= 0 else (" ", "")
    return ("█", colours[top]) if top == low else ("▀", f"{colours[top]} on {colours[low]}")


def slowest(scene: Scene, trail: Trail, looks: Looks) -> Content:
    """Return which of the last tokens took longest, and why."""
    totals = trail.spent.sum(axis=1)
    row = int(np.argmax(totals))
    part, word, colour, _ = PARTS[int(np.argmax(trail.spent[row]))]
    share = trail.spent[row, part] / max(totals[row], 1e-9)
    layer = int(np.argmax(trail.layer_ms[row]))
    text = scene.words[int(trail.numbers[row])]
    name = f"{looks.glyphs.quoted(clean(text).strip())} " if text and text.strip() else ""
    return Content.assemble(
        ("slowest ", "$text-muted"), (f"{name}{milliseconds(totals[row])}", "bold"), ": ",
        (f"{word} {share:.0%}", colour),
        (f", layer {scene.sample.layers[layer]} {milliseconds(float(trail.layer_ms[row, layer]))}", "$text-muted"),
    )  # fmt: skip


def ahead_words(ahead: Ahead) -> str:
    """Return who foresaw how much, and what became of reads on a guess; '' before anything was foreseen."""
    recall = " ".join(f"{BY[by]} {found / wanted:.0%}" for by, (found, wanted) in ahead.recall.items())
    reads = f", {ahead.useful:,} of {ahead.reads:,} reads used" if ahead.reads else ""
    return f"foreseen: {recall}{reads}" if recall else ""


class SpeedPane(TextPane):
    """Tokens a second, and for every one of the last tokens a stack of what its time went to."""

    NAME, TITLE = "speed", "speed"
    HELP_LINE = "Tokens a second, and what the time of each of the last tokens went to"
    LEAST, MOST = 7, 10

    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return figures, chart, legend and the slowest token."""
        trail = scene.trail
        lines = [self._figures(scene, width)]
        if not len(trail):
            return lines
        room = max(1, height - 3)
        spent = trail.spent[-max(1, width - SCALE) :]
        totals = spent.sum(axis=1)
        top = float(min(totals.max(), OUTLIER * np.median(totals)))
        picture = stacks(spent, top, 2 * room if self.looks.halves else room)
        scale = [f"{milliseconds(top):>{SCALE - 1}} ", *[" " * SCALE] * (room - 2), "0 ms ".rjust(SCALE)][:room]
        chart = stack_lines(picture, self.looks)
        lines += [Content.assemble((left, "$text-muted"), line) for left, line in zip(scale, chart, strict=True)]
        return [*lines, self._legend(trail, width), slowest(scene, trail, self.looks)]

    def _figures(self, scene: Scene, width: int) -> Content:
        turn, live = scene.history.turn, scene.sample.tok_s if scene.live else None
        speed = live if live is not None else turn.tok_s if turn is not None and turn.tokens > 1 else None
        head = (rate(speed), "bold") if speed is not None else ("no answer yet", "$text-muted")
        words = [""]
        if turn is not None and turn.tokens and not scene.live:
            words += [f"first token {seconds(turn.ttft_s)}", tokens(turn.tokens)]
        elif scene.live:
            words.append(tokens(scene.sample.tokens))
        if scene.sample.ahead is not None and (foreseen := ahead_words(scene.sample.ahead)):
            words.append(foreseen)
        return Content.assemble(head, (joined(words, width - len(head[0])), "$text-muted"))

    def _legend(self, trail: Trail, width: int) -> Content:
        total = float(trail.spent.sum()) or 1.0
        square = self.looks.glyphs.bar
        line = brief = Content()
        for part, word, colour, letter in PARTS:
            glyph = square if self.looks.halves else letter
            words = f" {word} {trail.spent[:, part].sum() / total:.0%}"
            line = (line + "  " if line else line) + Content.assemble((glyph, colour), (words, "$text-muted"))
            brief = (brief + "  " if brief else brief) + Content.styled(words.strip(), colour)
        if line.cell_length > width and self.looks.halves:
            return brief
        return Content(" " * max(0, min(SCALE, width - line.cell_length))) + line
