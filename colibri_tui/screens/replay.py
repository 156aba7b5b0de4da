"""A recorded trace played through the atlas."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from colibri_tui.bindings import bind
from colibri_tui.render.bars import meter
from colibri_tui.render.clean import clean
from colibri_tui.render.looks import Looks
from colibri_tui.replay import Replay, read_trace
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.keys_footer import KeysFooter
from engine.errors import EngineError

SLOWEST, FASTEST = 1, 1024
"""Tokens a second."""
JUMP: Final = 10
BAR: Final = 30


class ReplayScreen(Screen[None]):
    """Space plays and stops, arrows step; heat is counted from the trace's first token on."""

    AUTO_FOCUS = ""
    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("replay_play", "play"),
        bind("replay_back", "step(-1)"),
        bind("replay_on", "step(1)"),
        bind("replay_ten_back", f"step(-{JUMP})", show=False),
        bind("replay_ten_on", f"step({JUMP})", show=False),
        bind("replay_first", "seek(0)"),
        bind("replay_last", "seek(-1)"),
        bind("replay_slower", "speed(-1)"),
        bind("replay_faster", "speed(1)"),
        bind("replay_order", "order"),
        bind("close", "close"),
    ]
    atlas = query_one(Atlas)
    told = query_one("#told", Static)

    def __init__(self, trace: Path, looks: Looks, frame_seconds: float) -> None:
        super().__init__()
        self._trace, self._looks, self._frame = trace, looks, frame_seconds
        self._folder = tempfile.TemporaryDirectory(prefix="colibri-replay-")
        self._replay: Replay | None = None
        self._speed = 8
        self._playing = False
        self._due = 0.0  # tokens, in parts

    def compose(self) -> ComposeResult:
        """Head, map, and where one is."""
        yield Static(Content.assemble(("replay ", "bold"), clean(str(self._trace))), id="head")
        yield Atlas(self._looks)
        yield Static(id="told")
        yield KeysFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Read the trace; play when it is there."""
        self.atlas.can_focus = False
        self.told.update("reading the trace")
        self._last = time.monotonic()
        self.set_interval(self._frame, self._tick)
        self._read()

    def on_unmount(self) -> None:
        """Remove the frames."""
        self._replay = None
        self._folder.cleanup()

    @work(thread=True, exclusive=True, group="replay")
    def _read(self) -> None:
        def progress(done: int, size: int) -> None:
            self.app.call_from_thread(self._say, f"reading the trace {100 * done // max(size, 1)} %")

        try:
            replay = read_trace(self._trace, Path(self._folder.name) / "frames", progress)
        except EngineError as error:
            self.app.call_from_thread(self._say, str(error))
        else:
            self.app.call_from_thread(self._begin, replay)

    def _say(self, text: str) -> None:
        if self.is_attached:
            self.told.update(Content(clean(text)))

    def _begin(self, replay: Replay) -> None:
        if self.is_attached:
            self._replay, self._playing = replay, True
            self._draw()

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = self.atlas.looks = looks

    def action_play(self) -> None:
        """Play, from the beginning if it is at its end, or stop."""
        replay = self._replay
        if replay is not None:
            self._playing = not self._playing
            if self._playing and replay.position == len(replay):
                replay.seek(0)
            self._draw()

    def action_step(self, by: int) -> None:
        """Stop, and go so many tokens on or back."""
        if self._replay is not None:
            self._playing = False
            self._replay.seek(self._replay.position + by)
            self._draw()

    def action_seek(self, position: int) -> None:
        """Go to a token; -1 is the last one."""
        if self._replay is not None:
            self._playing = False
            self._replay.seek(position if position >= 0 else len(self._replay))
            self._draw()

    def action_speed(self, by: int) -> None:
        """Twice as fast, or half as fast."""
        self._speed = min(max(self._speed * 2 if by > 0 else self._speed // 2, SLOWEST), FASTEST)
        self._draw()

    def action_order(self) -> None:
        """By number or by use."""
        self.atlas.action_order()

    def action_close(self) -> None:
        """Back to the chat."""
        self.dismiss(None)

    def _tick(self) -> None:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        replay = self._replay
        if replay is None or not self._playing:
            return
        self._due += passed * self._speed
        tokens, self._due = int(self._due), self._due % 1
        if tokens:
            replay.seek(replay.position + tokens)
            self._playing = replay.position < len(replay)
            self._draw()

    def _draw(self) -> None:
        replay = self._replay
        if replay is None:
            return
        self.atlas.show(replay.sample())
        glyphs = self._looks.glyphs
        bar = meter(replay.position / len(replay), BAR, glyphs.meter, glyphs.meter_rest)
        state = f"playing, {self._speed} tokens a second" if self._playing else "stopped"
        self.told.update(
            Content.assemble(
                (f"token {replay.position:,} of {len(replay):,}  ", "bold"), bar, (f"  {state}", "$text-muted")
            )
        )
