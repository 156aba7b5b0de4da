"""Where the panes stand: beside the chat as many as fit, or one on the whole screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from colibri_tui.experts_known import Known
from colibri_tui.render.arrange import Place, Wish, arrange
from colibri_tui.render.looks import Looks
from colibri_tui.scene import Scene, Selection
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.panes import HIDDEN_AT_FIRST, PANE, PANES
from colibri_tui.widgets.panes.atlas_pane import AtlasPane
from colibri_tui.widgets.panes.expert import ExpertPane
from colibri_tui.widgets.panes.pane import Pane, PaneTitle
from colibri_tui.widgets.panes.path import PathPane

BESIDE_FROM = 110
"""With so many columns the chosen expert stands beside the enlarged atlas; with fewer, below it."""
BESIDE_WIDTH = 52


class PaneLayout(Layout):
    """Asks the column where its panes go."""

    name = "panes"

    def __init__(self, places: Callable[[Size], dict[str, Place]]) -> None:
        self._places = places

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Place those that have a place; the others are not seen."""
        places = self._places(size)
        placements = []
        for child in children:
            if isinstance(child, Pane):
                child.placed = child.NAME in places
                if child.placed:
                    region = Region(*places[child.NAME])
                    placements.append(WidgetPlacement(region, region.reset_offset.offset, Spacing(), child))
        return placements


class PaneColumn(Container):
    """All panes. hidden: names of those that are not wanted. enlarged: the one that has all the room, or None."""

    class Changed(Message):
        """Panes were shown, hidden or enlarged with the mouse."""

    DEFAULT_CSS = "PaneColumn { overflow: hidden; }"

    def __init__(self, looks: Looks, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.panes = [pane(looks) for pane in PANES]
        self.hidden: set[str] = set(HIDDEN_AT_FIRST)
        self.enlarged: str | None = None
        self.selection = Selection()
        self._scene: Scene | None = None
        self._layout = PaneLayout(self._places)

    def compose(self) -> ComposeResult:
        """All of them; the layout decides who is seen."""
        yield from self.panes

    @property
    def layout(self) -> Layout:
        """Ours, whatever the style sheet says."""
        return self._layout

    def pane(self, name: str) -> Pane:
        """Return one by its name."""
        return next(pane for pane in self.panes if name == pane.NAME)

    @property
    def atlas(self) -> Atlas:
        """The expert map."""
        pane = self.pane(AtlasPane.NAME)
        assert isinstance(pane, AtlasPane)
        return pane.atlas

    def seen(self) -> list[Pane]:
        """Return the panes that have a place."""
        return [pane for pane in self.panes if pane.placed]

    # Who is seen

    def _wishes(self, names: Iterable[str]) -> list[Wish]:
        wanted = set(names)
        return [pane.wish(self._scene) for pane in self.panes if pane.NAME in wanted]

    def _places(self, size: Size) -> dict[str, Place]:
        width, height = size
        if self.enlarged is None:
            return arrange(self._wishes(PANE.keys() - self.hidden), width, height)
        whole = {self.enlarged: Place(0, 0, width, height)}
        if self.enlarged != AtlasPane.NAME or self.selection.expert is None:
            return whole
        if width >= BESIDE_FROM:
            left = width - BESIDE_WIDTH
            return {
                AtlasPane.NAME: Place(0, 0, left - 1, height),
                ExpertPane.NAME: Place(left, 0, BESIDE_WIDTH, height),
            }
        return arrange(self._wishes([AtlasPane.NAME, ExpertPane.NAME]), width, height)

    def enlarge(self, name: str | None) -> None:
        """Give one pane all the room, or every one its place back."""
        self.enlarged = name
        self._again()

    def toggle(self, name: str) -> bool:
        """Show or hide a pane; return whether it is wanted now."""
        self.hidden ^= {name}
        if self.enlarged == name:
            self.enlarged = None
        self._again()
        return name not in self.hidden

    def _again(self) -> None:
        self._arrange_anew()
        self.call_after_refresh(self._draw_all)

    def _arrange_anew(self) -> None:
        self.panes[0].refresh(layout=True)  # an arrangement is kept until a child asks for another one

    # Drawing

    def draw(self, scene: Scene, *, settled: bool = False) -> None:
        """Draw a scene on those that are seen."""
        if self._take(scene):
            for pane in self.seen():
                pane.draw(scene, settled=settled)

    def draw_atlas(self, scene: Scene, *, settled: bool = False) -> None:
        """Draw a scene on the map only, which moves faster than one can read."""
        if self._take(scene):
            for pane in self.seen():
                if pane.NAME == AtlasPane.NAME:
                    pane.draw(scene, settled=settled)

    def draw_share(self, scene: Scene, share: int, shares: int) -> None:
        """Draw a scene, which need not be the newest, on one of so many shares of the others."""
        if self.display:
            for pane in [pane for pane in self.seen() if pane.NAME != AtlasPane.NAME][share::shares]:
                pane.draw(scene)

    def draw_one(self, pane: Pane, scene: Scene) -> None:
        """Draw what there is when an answer has ended on one pane, if it is seen."""
        if self._take(scene) and pane.placed:
            pane.draw(scene, settled=True)

    def _take(self, scene: Scene) -> bool:
        """Take note of the newest scene; return whether anybody sees it."""
        first = self._scene is None or self._scene.sample.layers != scene.sample.layers
        self._scene = scene
        if first and self.display and self.is_attached:  # another model wishes other heights
            self._again()
        return self.display

    def _draw_all(self) -> None:
        if self._scene is not None:
            self.draw(self._scene)

    def on_resize(self) -> None:
        """Others are seen now."""
        self.call_after_refresh(self._draw_all)

    def clear(self) -> None:
        """Forget the model."""
        self._scene = None
        self.selection.expert = self.selection.token = None
        for pane in self.panes:
            pane.clear()

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        for pane in self.panes:
            pane.set_looks(looks)

    def learn(self, known: Known) -> None:
        """Take what the profiles know about experts."""
        pane = self.pane(ExpertPane.NAME)
        assert isinstance(pane, ExpertPane)
        pane.learn(known)

    # What is chosen

    @on(Atlas.Pointed)
    def _pointed(self, event: Atlas.Pointed) -> None:
        event.stop()
        before, self.selection.expert = self.selection.expert, event.cursor
        if event.chosen and ExpertPane.NAME in self.hidden and self.enlarged is None:
            self.toggle(ExpertPane.NAME)
            self.post_message(self.Changed())
        elif (before is None) != (event.cursor is None) and self.enlarged is not None:
            self._again()
        else:
            self._draw_all()

    @on(PathPane.Chosen)
    def _chosen(self, event: PathPane.Chosen) -> None:
        event.stop()
        self.selection.token = event.number
        self._draw_all()

    @on(PaneTitle.Pressed)
    def _pressed(self, event: PaneTitle.Pressed) -> None:
        event.stop()
        name = event.name
        if not event.hide:
            self.enlarge(None if self.enlarged == name else name)
        elif self.enlarged is not None:
            self.enlarge(None)
        else:
            self.toggle(name)
        self.post_message(self.Changed())
