"""All about one expert: the one under the atlas' cursor."""

from __future__ import annotations

from typing import Final

import numpy as np
from textual.content import Content

from colibri_tui.bindings import keymap_of
from colibri_tui.experts_known import Known
from colibri_tui.render.clean import clean
from colibri_tui.render.looks import Looks
from colibri_tui.render.shades import Place
from colibri_tui.render.units import tokens
from colibri_tui.scene import Scene
from colibri_tui.widgets.panes.pane import TextPane
from engine.board import Tier

_TIERS = {
    Tier.PIN: (Place.PIN, "pinned"),
    Tier.CACHE: (Place.CACHE, "cached"),
    Tier.WORKING: (Place.CACHE, "on its way into memory"),
    Tier.DISK: (Place.DISK, "on disk"),
}
CALLERS, FOLLOWERS = 24, 8
"""Tokens and experts that are named, at most."""

UNCHOSEN: Final = "choose an expert in the atlas ({atlas}): arrows or a click"


class ExpertPane(TextPane):
    """Heat, rank, tier, last use, profiles, tokens and followers of the chosen expert."""

    NAME, TITLE = "expert", "expert"
    HELP_LINE = "The expert under the atlas' cursor: use, place, callers, followers"
    LEAST, MOST = 7, 9

    def __init__(self, looks: Looks) -> None:
        super().__init__(looks)
        self._known = Known()

    def learn(self, known: Known) -> None:
        """Take what the profiles know."""
        self._known = known
        self.redraw()

    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return a line a subject."""
        cursor, sample = scene.selection.expert, scene.sample
        if cursor is None or cursor[0] >= len(sample.layers) or cursor[1] >= sample.heat.shape[1]:
            return [Content.styled(keymap_of(self.app).fill(UNCHOSEN), "$text-muted")]
        layer, expert = cursor
        if sample.tier[layer, expert] == Tier.NONE:
            return [Content.styled(f"layer {sample.layers[layer]} has no expert {expert}", "$text-muted")]
        heat = sample.heat[layer]
        rank = 1 + int(np.count_nonzero(heat > heat[expert]))
        head = Content.assemble(
            (f"layer {sample.layers[layer]}, expert {expert}", "bold"),
            f"  {int(heat[expert]):,} uses, ",
            (f"number {rank} of {len(heat)}", "$accent"),
        )
        parts = [
            head,
            self._tier(scene, layer, expert),
            self._profiles(sample.layers[layer], expert),
            self._called(scene, layer, expert),
            self._followers(scene, layer, expert),
        ]
        lines: list[Content] = []
        for number, part in enumerate(parts):
            room = height - len(lines) - (len(parts) - number - 1)
            lines += part.wrap(width)[: max(1, room)]
        return lines

    def _tier(self, scene: Scene, layer: int, expert: int) -> Content:
        place, words = _TIERS[Tier(int(scene.sample.tier[layer, expert]))]
        glyph, colour = self.looks.bar(place)
        last = int(scene.sample.last_use[layer, expert])
        ago = scene.sample.clock - last
        used = (
            "not used since loading"
            if not last
            else "used by the newest token"
            if not ago
            else f"used {ago:,} forwards ago"
        )
        return Content.assemble((f"{glyph} ", colour), f"{words}  ", (used, "$text-muted"))

    def _profiles(self, layer: int, expert: int) -> Content:
        known = self._known
        if not known.ranks:
            return Content.styled("profiles: nothing learned yet", "$text-muted")
        hot = known.hot_in(layer, expert)
        kind = known.kind(layer, expert)
        names = ", ".join(f"{clean(name)} (number {rank + 1})" for name, rank in hot)
        words = f"hot in {names}" if hot else f"hot in none of {len(known.ranks)} profiles"
        return Content.assemble((f"{kind}: " if kind else "", "bold"), words)

    def _called(self, scene: Scene, layer: int, expert: int) -> Content:
        numbers = scene.trail.callers(layer, expert)
        if not numbers:
            return Content.styled(f"none of the last {tokens(len(scene.trail))} called it", "$text-muted")
        texts = [clean(text).strip() for n in numbers if (text := scene.words[n])]
        words = " ".join(dict.fromkeys(text for text in texts if text).keys()) if texts else ""
        words = " ".join(words.split(" ")[:CALLERS])
        return Content.assemble((f"called by {len(numbers)} of {len(scene.trail)}: ", "$text-muted"), words)

    def _followers(self, scene: Scene, layer: int, expert: int) -> Content:
        pairs = self._known.followers.get((scene.sample.layers[layer], expert), [])
        source = ".coli_pairs"
        if not pairs:
            pairs, source = scene.trail.followers(layer, expert), f"last {tokens(len(scene.trail))}"
        if not pairs:
            return Content.styled("followers: not known", "$text-muted")
        total = sum(count for _, count in pairs)
        named = "  ".join(f"E{e} {count / total:.0%}" for e, count in pairs[:FOLLOWERS])
        return Content.assemble(("then ", "$text-muted"), named, (f"  ({source})", "$text-muted"))
