"""The way of one token of the reply through the layers."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from colibri_tui.bindings import bind
from colibri_tui.render.clean import clean
from colibri_tui.render.shades import Place
from colibri_tui.scene import Scene
from colibri_tui.trail import Trail
from colibri_tui.widgets.panes.pane import TextPane
from colibri_tui.widgets.panes.speed import PARTS, milliseconds
from engine.board import Tier
from engine.routes import NOBODY

_PLACES = {Tier.PIN: Place.PIN, Tier.CACHE: Place.CACHE, Tier.DISK: Place.DISK}
HEAD = 3
"""Lines above the layers."""
JUMP = 10
"""Tokens that shift moves by."""


class PathPane(TextPane):
    """Experts, weights, places and time of every layer, for the chosen token of the last few hundred."""

    NAME, TITLE = "path", "way of a token"
    HELP_LINE = "A token's way through the layers: experts, weights, places, times"
    LEAST, MOST = 8, 16
    BINDING_GROUP_TITLE = "Way of a token"
    HELP = """
    - **left**, **right**: the token before, the next one; with **Shift** ten at once
    - **up**, **down**: other layers
    - **s**: the slowest token; **c**: follow the newest again
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("path_left", "token(-1)"),
        bind("path_right", "token(1)"),
        bind("path_back", f"token(-{JUMP})", show=False),
        bind("path_on", f"token({JUMP})", show=False),
        bind("path_up", "scroll_layers(-1)", show=False),
        bind("path_down", "scroll_layers(1)", show=False),
        bind("path_page_up", "scroll_layers(-10)", show=False),
        bind("path_page_down", "scroll_layers(10)", show=False),
        bind("path_slowest", "slowest"),
        bind("path_newest", "newest"),
    ]

    class Chosen(Message):
        """Another token was chosen; None: the newest, whichever that is."""

        def __init__(self, number: int | None) -> None:
            super().__init__()
            self.number = number

    first_layer = 0

    def action_token(self, by: int) -> None:
        """Choose a token before or after the chosen one."""
        scene = self._scene
        if scene is None or not len(scene.trail):
            return
        place = chosen(scene.trail, scene.selection.token)
        place = min(max(place + by, 0), len(scene.trail) - 1)
        self.post_message(self.Chosen(int(scene.trail.numbers[place])))

    def action_slowest(self) -> None:
        """Choose the token that took longest."""
        if self._scene is not None and len(self._scene.trail):
            trail = self._scene.trail
            self.post_message(self.Chosen(int(trail.numbers[int(trail.spent.sum(axis=1).argmax())])))

    def action_newest(self) -> None:
        """Follow the newest token."""
        self.post_message(self.Chosen(None))

    def action_scroll_layers(self, by: int) -> None:
        """Show other layers."""
        layers = len(self._scene.sample.layers) if self._scene else 0
        room = max(1, self._body.size.height - HEAD)
        self.first_layer = min(max(self.first_layer + by, 0), max(0, layers - room))
        self.redraw()

    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return the words around the token, its times, and a line a layer."""
        trail = scene.trail
        if not len(trail):
            return [Content.styled("no token yet", "$text-muted")]
        place = chosen(trail, scene.selection.token)
        lines = [self._around(scene, trail, place, width), self._times(trail, place)]
        lines.append(Content.styled(f"{'layer':>5} {'time':>9} {'reads':>9}  experts and weights", "$text-muted"))
        self.first_layer = min(self.first_layer, max(0, len(scene.sample.layers) - (height - HEAD)))
        for layer in range(self.first_layer, min(len(scene.sample.layers), self.first_layer + max(0, height - HEAD))):
            lines.append(self._layer(scene, trail, place, layer))
        return lines

    def _around(self, scene: Scene, trail: Trail, place: int, width: int) -> Content:
        """Return the token in bold among its neighbours."""

        def word(at: int) -> str:
            text = scene.words[int(trail.numbers[at])] if 0 <= at < len(trail) else None
            return clean(text).replace("\n", " ") if text else ""

        here = word(place).strip() or f"token {trail.numbers[place]}"
        before, at = "", place - 1
        while at >= 0 and len(before) < width // 2 - len(here) - 2:
            before, at = word(at) + before, at - 1
        before = before[-max(0, width // 2 - len(here) - 2) :] if len(here) < width // 2 else ""
        after = "".join(word(at) for at in range(place + 1, min(len(trail), place + 20)))
        return Content.assemble(
            (before, "$text-muted"), " ", (here, "bold reverse"), (f" {after.lstrip()}", "$text-muted")
        )

    def _times(self, trail: Trail, place: int) -> Content:
        spent = trail.spent[place]
        parts = [(f"{word} {milliseconds(float(spent[part]))}  ", colour) for part, word, colour, _ in PARTS]
        return Content.assemble((f"{milliseconds(float(spent.sum()))}  ", "bold"), *parts)

    def _layer(self, scene: Scene, trail: Trail, place: int, layer: int) -> Content:
        time, wait = float(trail.layer_ms[place, layer]), float(trail.wait_ms[place, layer])
        waited = milliseconds(wait) if wait else self.looks.glyphs.dot
        words: list[tuple[str, str]] = [
            (f"{scene.sample.layers[layer]:>5} {milliseconds(time):>9} ", ""), (f"{waited:>9}  ", "$warning"),
        ]  # fmt: skip
        chosen_here = zip(trail.ids[place, layer], trail.gates[place, layer], trail.found[place, layer], strict=True)
        for expert, gate, tier in chosen_here:
            if expert != NOBODY:
                glyph, colour = self.looks.bar(_PLACES.get(Tier(int(tier)), Place.DISK))
                words += [(glyph, colour), (f"{expert:<3}", ""), (f"{gate:.2f}  ", "$text-muted")]
        return Content.assemble(*words)


def chosen(trail: Trail, number: int | None) -> int:
    """Return the place of a token in the trail; of the newest for None, and for one that is forgotten."""
    place = trail.place(number) if number is not None else None
    return len(trail) - 1 if place is None else place
