"""What every pane is: a title line that a mouse can use, and below it a picture of a scene.

A pane draws only while it has a place (see `PaneColumn`); a scene is the whole state, so nothing is missed meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from colibri_tui.bindings import keymap_of
from colibri_tui.render.arrange import Wish
from colibri_tui.render.looks import Looks
from colibri_tui.scene import Scene

CLOSE_COLUMNS = 3
"""At the right end of the title line a click hides the pane."""


class PaneTitle(Static):
    """The title line: a click enlarges the pane or puts it back, one on the cross at its end hides it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "PaneTitle { height: 1; width: 1fr; color: $text-muted; }"

    class Pressed(Message):
        """The title line of the pane of this name was clicked; hide: on its cross."""

        def __init__(self, name: str, hide: bool) -> None:
            super().__init__()
            self.name, self.hide = name, hide

    def __init__(self, pane: type[Pane], looks: Looks) -> None:
        super().__init__()
        self._pane, self._words, self.looks = pane.NAME, pane.TITLE, looks
        self.active = False

    def on_click(self, event: Click) -> None:
        """See above."""
        event.stop()
        self.post_message(self.Pressed(self._pane, hide=event.x >= self.size.width - CLOSE_COLUMNS))

    def render(self) -> Content:
        """Return title, rule, key and cross."""
        rule, width = self.looks.glyphs.rule, self.size.width
        keymap = keymap_of(self.app)
        key = f"{keymap.said(self._pane)} " if keymap.keys(self._pane) else ""
        end = f" {key}x "
        space = max(0, width - len(self._words) - len(end) - 3)
        style = "bold $accent" if self.active else "bold"
        return Content.assemble((f"{rule} ", ""), (self._words, style), (f" {rule * space}{end}", ""))


class Pane(Vertical, can_focus=True):
    """One subject. Derived classes say how they are called and how they draw a scene.

    NAME: in commands and settings. It is also the command whose key enlarges the pane. TITLE, HELP_LINE: on screen.
    """

    FOCUS_ON_CLICK = False  # the composer keeps the keyboard; Tab, or the key that enlarges, gives it to a pane

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    HELP_LINE: ClassVar[str]
    LEAST: ClassVar[int] = 4
    MOST: ClassVar[int] = 10
    """Rows it needs, and has use for; its title line included."""

    DEFAULT_CSS = "Pane { padding: 0; }"

    def __init__(self, looks: Looks) -> None:
        super().__init__(id=self.NAME)
        self.placed = False
        self._looks = looks
        self._title = PaneTitle(type(self), looks)

    def compose(self) -> ComposeResult:
        """The title line; derived classes add what is below it."""
        yield self._title

    def wish(self, scene: Scene | None) -> Wish:
        """Return the rows it wants for this model."""
        return Wish(self.NAME, self.LEAST, self.MOST)

    @property
    def looks(self) -> Looks:
        """Colours, glyphs and depth."""
        return self._looks

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = self._title.looks = looks
        self._title.refresh()

    @abstractmethod
    def draw(self, scene: Scene, *, settled: bool = False) -> None:
        """Draw a scene; settled: an answer has ended."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the model."""

    def allow_focus(self) -> bool:
        """Only what is seen can have the keyboard."""
        return super().allow_focus() and self.placed

    def on_focus(self) -> None:
        """Show where the keyboard is."""
        self._mark(True)

    def on_blur(self) -> None:
        """The same."""
        self._mark(False)

    def _mark(self, active: bool) -> None:
        self._title.active = active
        self._title.refresh()


class TextPane(Pane):
    """A pane of lines. `lines` is all that derived classes need."""

    def __init__(self, looks: Looks) -> None:
        super().__init__(looks)
        self._body = PaneText()
        self._scene: Scene | None = None

    def compose(self) -> ComposeResult:
        """Title and lines."""
        yield from super().compose()
        yield self._body

    @abstractmethod
    def lines(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Return at most `height` lines, each at most `width` columns wide."""

    def draw(self, scene: Scene, *, settled: bool = False) -> None:
        """Draw, when something changed."""
        self._scene = scene
        self.redraw()

    def redraw(self) -> None:
        """Draw the last scene again."""
        width, height = self._body.size
        if self._scene is not None and width and height:
            self._body.show(Content("\n").join(self.lines(self._scene, width, height)[:height]))

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        super().set_looks(looks)
        self.redraw()

    def clear(self) -> None:
        """Forget the model."""
        self._scene = None
        self._body.show(Content())


class PaneText(Static):
    """The lines of a pane. They are cut, never wrapped: a figure keeps its place."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "PaneText { height: 1fr; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: Content | None = None

    def show(self, content: Content) -> None:
        """Draw, if it differs from what is there."""
        if content != self._shown:
            self._shown = content
            self.update(content, layout=False)

    def on_resize(self) -> None:
        """Lines follow the size."""
        if isinstance(self.parent, TextPane):
            self.parent.redraw()
