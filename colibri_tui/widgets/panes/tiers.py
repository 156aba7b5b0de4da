"""Where the memory goes, and where experts were found."""

from __future__ import annotations

from textual.content import Content

from colibri_tui.render.bars import cells
from colibri_tui.render.looks import Looks
from colibri_tui.render.shades import Place
from colibri_tui.render.units import size
from colibri_tui.scene import Scene
from colibri_tui.widgets.hit_bar import BLOCK, LABEL, block, read_line
from colibri_tui.widgets.panes.pane import TextPane
from engine.events import Plan


def plan_parts(plan: Plan, looks: Looks) -> list[tuple[str, int, tuple[str, str]]]:
    """Return (name, bytes, (glyph, colour)) of the plan's parts in the order of the bar."""
    full, rest = looks.glyphs.meter, looks.glyphs.meter_rest
    letters = not looks.depth.paints or full.isascii()  # where neither colour nor shade tells them apart

    def part(letter: str, colour: str) -> tuple[str, str]:
        return (letter if letters else full), colour

    return [
        ("dense", plan.dense, part("d", "$foreground")),
        ("KV", plan.kv, part("k", "$success")),
        ("work", plan.runtime + plan.work, part("w", "$text-muted")),
        ("pins", plan.pins, looks.bar(Place.PIN)),
        ("cache", plan.cache, looks.bar(Place.CACHE)),
        ("free", plan.free, (rest, "$text-disabled")),
    ]


def plan_lines(plan: Plan, looks: Looks, width: int) -> list[Content]:
    """Return the memory plan as one bar, and below it what its parts are."""
    parts = plan_parts(plan, looks)
    lengths = cells([count for _, count, _ in parts], max(width - LABEL, 0))
    bar = [(glyph * length, colour) for (_, _, (glyph, colour)), length in zip(parts, lengths, strict=True)]
    entries = [
        Content.assemble((glyph, colour), (f" {name} {size(count)}", "$text-muted"))
        for name, count, (glyph, colour) in parts
    ]
    return [Content.assemble("memory".ljust(LABEL), *bar), *_legend(entries, width)]


def _legend(entries: list[Content], width: int) -> list[Content]:
    """Return two lines of columns below the bar, or without so much room as many lines as it takes."""
    half = len(entries) // 2
    wide = [max(a.cell_length, b.cell_length) + 2 for a, b in zip(entries[:half], entries[half:], strict=True)]
    if LABEL + sum(wide) - 2 <= width:
        rows = [
            Content().join([entry + " " * (w - entry.cell_length) for entry, w in zip(row, wide, strict=True)])
            for row in (entries[:half], entries[half:])
        ]
        return [" " * LABEL + row.rstrip() for row in rows]
    lines, line = [], Content()
    for entry in entries:
        if line and line.cell_length + 2 + entry.cell_length > width:
            lines.append(line)
            line = Content()
        line = line + "  " + entry if line else entry
    return [*lines, line]


class TiersPane(TextPane):
    """The memory plan as one bar; hits by pin, cache and disk, their total first."""

    NAME, TITLE = "tiers", "tiers"
    HELP_LINE = "Where the memory goes, and where experts were found: pinned, cached, on disk"
    LEAST, MOST = 9, 14

    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return the hits of this answer, the plan, and if there is room the hits since loading."""
        reads, ever = scene.reads, scene.sample.ever
        lines = block("this answer", reads, self.looks, width)
        plan = plan_lines(scene.ready.plan, self.looks, width)
        if height >= len(lines) + len(plan) + BLOCK + 1:
            lines += block("since loading", ever, self.looks, width)
        return [*lines, read_line(reads, ever, width), *plan]
