"""How many experts tokens really used."""

from __future__ import annotations

import numpy as np
from textual.content import Content

from colibri_tui.render.bars import joined
from colibri_tui.render.columns import Floats, columns, fit_columns
from colibri_tui.render.units import tokens
from colibri_tui.scene import Scene
from colibri_tui.widgets.panes.pane import TextPane
from colibri_tui.widgets.status_line import lossy_options

CHART = 3
"""Rows of the charts, at least."""


def setting(scene: Scene) -> Content:
    """Return whether fewer experts than the model's own number may be used, and by which options."""
    used = [words for words in lossy_options(scene.options) if words.startswith(("--topp", "--topk"))]
    if used:
        return Content.styled(f"lossy: {' '.join(used)}", "bold $warning")
    return Content.styled("exact", "$text-muted")


def per_layer(scene: Scene) -> Floats:
    """Return the mean number of experts of every layer over the last tokens; NaN where there are none."""
    kept = scene.trail.kept
    return kept.mean(axis=0) if len(kept) else np.full(len(scene.sample.layers), np.nan)


def distribution(scene: Scene) -> Floats:
    """Return the share of the last tokens' choices that took 1, 2, ... experts."""
    top = scene.ready.top_k
    counts = np.bincount(scene.trail.kept.ravel(), minlength=top + 1)[1 : top + 1]
    shares: Floats = counts / max(1, counts.sum())
    return shares


class KeffPane(TextPane):
    """Mean per layer and distribution over the last tokens, and the setting that causes it."""

    NAME, TITLE = "keff", "experts a token"
    HELP_LINE = "How many experts the last tokens used, by layer"
    LEAST, MOST = 6, 8

    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return figures above two charts on the scale from none to all."""
        trail, top = scene.trail, scene.ready.top_k
        note = setting(scene)
        if not len(trail):
            return [Content.assemble((f"up to {top} in each layer, ", "$text-muted"), note), _nothing()]
        kept = trail.kept
        half = np.percentile(kept, [50, 90])
        mean = f"{kept.mean():.2f} of {top}"
        figures = [f"median {half[0]:.0f}, p90 {half[1]:.0f}", f"last {tokens(len(trail))}"]
        words = joined(["", *figures], width - len(mean) - 2 - note.cell_length)
        head = Content.assemble((mean, "bold"), (f"{words}  ", "$text-muted"), note)
        if kept.min() == top:
            return [head, Content.styled(f"every token used all {top} in every layer", "$text-muted")]
        shares, room = distribution(scene), max(1, height - 2)
        each = 3 if 3 * top + 14 <= width else 1
        left = max(8, width - each * top - 2)
        layers = fit_columns(per_layer(scene), left) / top
        by_layer = columns(layers, room, self.looks.glyphs)
        bars = columns(np.repeat(shares, each), room, self.looks.glyphs)
        rows = [
            Content.assemble((a.ljust(left + 2), "$accent"), (b, "$primary"))
            for a, b in zip(by_layer, bars, strict=True)
        ]
        names = "".join(str(n).rjust(each - 1).ljust(each) if each > 1 else str(n % 10) for n in range(1, top + 1))
        span = f"layers {scene.sample.layers[0]}-{scene.sample.layers[-1]}, 0 to {top}"
        return [head, *rows, Content.styled(span[: left + 1].ljust(left + 2) + names, "$text-muted")]


def _nothing() -> Content:
    return Content.styled("no token yet", "$text-muted")
