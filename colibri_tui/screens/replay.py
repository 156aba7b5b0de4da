"""A recorded trace played through the atlas, with what a cache would have held."""

from __future__ import annotations

import time
from dataclasses import replace
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
from colibri_tui.render.shades import View
from colibri_tui.replay import OPTIMUM, POLICIES, Placement, Replay, Simulation
from colibri_tui.replay_link import ReplayLink
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.keys_footer import KeysFooter
from engine.errors import EngineError

SLOWEST, FASTEST = 1, 1024
"""Tokens a second."""
JUMP: Final = 10
BAR: Final = 30
CAP_SHARE: Final = 2
"""Without an engine half of a layer's experts are held at first."""
PATIENCE: Final = 2
"""Seconds after which a simulation says why it takes so long."""
COMPILES: Final = "the first of each policy is compiled, which takes up to half a minute"


class ReplayScreen(Screen[None]):
    """Space plays and stops, arrows step; heat and hits are counted from the trace's first token on."""

    AUTO_FOCUS = ""
    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("replay_play", "play"),
        bind("replay_back", "step(-1)"),
        bind("replay_on", "step(1)"),
        bind("replay_ten_back", f"step(-{JUMP})", show=False),
        bind("replay_ten_on", f"step({JUMP})", show=False),
        bind("replay_first", "seek(0)", show=False),
        bind("replay_last", "seek(-1)", show=False),
        bind("replay_slower", "speed(-1)", show=False),
        bind("replay_faster", "speed(1)", show=False),
        bind("replay_more_slots", "slots(1)"),
        bind("replay_fewer_slots", "slots(-1)"),
        bind("replay_ten_slots_more", f"slots({JUMP})", show=False),
        bind("replay_ten_slots_fewer", f"slots(-{JUMP})", show=False),
        bind("replay_policy", "policy(1)"),
        bind("replay_policy_before", "policy(-1)", show=False),
        bind("replay_pins", "pins"),
        bind("replay_view", "view"),
        bind("replay_order", "order", show=False),
        bind("close", "close"),
    ]
    atlas = query_one(Atlas)
    told = query_one("#told", Static)

    def __init__(
        self,
        trace: Path,
        looks: Looks,
        frame_seconds: float,
        model: tuple[tuple[int, ...], int] | None = None,
        present: Placement | None = None,
    ) -> None:
        """model: layers with routers and experts of the one that is loaded, present: where it keeps its experts."""
        super().__init__()
        self._trace, self._looks, self._frame, self._model = trace, looks, frame_seconds, model
        self._present = present or Placement(POLICIES[0], 0)
        self._pins: tuple[tuple[int, int], ...] = ()  # those of them in the trace's layers
        self._link: ReplayLink | None = None
        self._replay: Replay | None = None
        self._wanted = self._present
        self._simulating = False
        self._began = 0.0  # when the simulation did
        self._problem = ""
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
        self.atlas.view = View.TIER
        self.told.update("reading the trace")
        self._last = time.monotonic()
        self.set_interval(self._frame, self._tick)
        self.set_interval(1.0, self._wait)
        self._link = ReplayLink(self._trace)
        self._read(self._link)

    def on_unmount(self) -> None:
        """Remove what was read."""
        self._replay = None
        if self._link is not None:
            self._link.close()

    @work(thread=True, group="replay")
    def _read(self, link: ReplayLink) -> None:
        def progress(done: int, size: int) -> None:
            self.app.call_from_thread(self._say, f"reading the trace {100 * done // max(size, 1)} %")

        try:
            replay = link.read(progress, self._model)
        except EngineError as error:
            self.app.call_from_thread(self._say, str(error))
        else:
            self.app.call_from_thread(self._begin, replay)

    def _say(self, text: str) -> None:
        if self.is_attached:
            self.told.update(Content(clean(text)))

    def _begin(self, replay: Replay) -> None:
        if not self.is_attached:
            return
        self._replay, self._playing = replay, True
        if self._model is None or not set(replay.layers) <= set(self._model[0]):  # another model's trace
            self._present = Placement(self._present.policy, 0)
        self._pins = tuple(pin for pin in self._present.pinned if pin[0] in replay.layers)
        cap = self._present.cap or -(-replay.experts // CAP_SHARE)
        self._want(replace(self._present, cap=min(cap, replay.experts), pinned=self._pins))
        self.refresh_bindings()
        self._draw()

    # What is simulated

    def _want(self, placement: Placement) -> None:
        self._wanted, self._problem = placement, ""
        if self._replay is not None and self._link is not None and not self._simulating:
            self._simulating, self._began = True, time.monotonic()
            self._simulate(self._link, self._replay, placement)
        self._draw()

    @work(thread=True, group="replay")
    def _simulate(self, link: ReplayLink, replay: Replay, placement: Placement) -> None:
        try:
            simulation = link.simulate(replay, placement)
            simulation.seek(replay.position)
        except EngineError as error:
            self.app.call_from_thread(self._take, None, str(error))
        else:
            self.app.call_from_thread(self._take, simulation)

    def _take(self, simulation: Simulation | None, problem: str = "") -> None:
        """Show what was simulated; then what was asked for meanwhile."""
        self._simulating, self._problem = False, problem
        if self._replay is None or not self.is_attached:
            return
        if simulation is not None:
            self._replay.take(simulation)
            if simulation.placement != self._wanted:
                self._want(self._wanted)
        self._draw()

    def action_policy(self, by: int) -> None:
        """Simulate the next policy, or the one before."""
        at = POLICIES.index(self._wanted.policy) if self._wanted.policy in POLICIES else 0
        self._want(replace(self._wanted, policy=POLICIES[(at + by) % len(POLICIES)]))

    def action_slots(self, by: int) -> None:
        """Simulate larger or smaller caches."""
        if self._replay is not None:
            self._want(replace(self._wanted, cap=min(max(self._wanted.cap + by, 1), self._replay.experts)))

    def action_pins(self) -> None:
        """Simulate with what the engine has pinned now, or without."""
        self._want(replace(self._wanted, pinned=() if self._wanted.pinned else self._pins))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Pins are offered where there are any."""
        return action != "pins" or bool(self._pins)

    # Where one is

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

    def action_view(self) -> None:
        """How often experts were chosen, or where they lie."""
        self.atlas.action_view()

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

    def _wait(self) -> None:
        """Count the seconds of a simulation."""
        if self._simulating:
            self._draw()

    def _draw(self) -> None:
        replay = self._replay
        if replay is None:
            return
        self.atlas.show(replay.sample())
        glyphs = self._looks.glyphs
        bar = meter(replay.position / len(replay), BAR, glyphs.meter, glyphs.meter_rest)
        state = f"playing, {self._speed} tokens a second (- +)" if self._playing else "stopped"
        where = Content.assemble(
            (f"token {replay.position:,} of {len(replay):,}  ", "bold"), bar, (f"  {state}", "$text-muted")
        )
        self.told.update(Content("\n").join([where, *self._simulated(replay)]))

    def _simulated(self, replay: Replay) -> list[Content]:
        """Say what is simulated, and what it found in memory."""
        shown, lines = replay.simulation, []
        if shown is not None:
            lines = [Content.assemble(f"simulated: {words(shown.placement, replay.experts)}  ", found(shown))]
        if self._problem:
            lines.append(Content.styled(clean(self._problem), "$text-warning"))
        elif shown is None or shown.placement != self._wanted:
            passed = int(time.monotonic() - self._began)
            said = f"; {passed} s, {COMPILES}" if passed >= PATIENCE else ""
            lines.append(Content.styled(f"simulating {words(self._wanted, replay.experts)}{said}", "$text-muted"))
        return lines


def words(placement: Placement, experts: int) -> str:
    """Say what is simulated."""
    policy = "optimum (knows the future)" if placement.policy == OPTIMUM else placement.policy
    pins = f", {len(placement.pinned):,} pinned" if placement.pinned else ""
    return f"{policy}, {placement.cap:,} of {experts:,} slots a layer{pins}"


def found(simulation: Simulation) -> Content:
    """Say how many look-ups were hits until now, prompts included and answers alone, and at the newest token."""
    decode, prefill, newest = simulation.decode, simulation.prefill, simulation.newest
    total = decode.total + prefill.total
    if not total:
        return Content("no look-ups yet")
    hits = total - decode.disk - prefill.disk
    told = Content.assemble((f"hits {100 * hits / total:.1f} %", "bold"), f" of {total:,} look-ups")
    if decode.total and prefill.total:
        told += Content(f", answers {100 * decode.rate:.1f} %")
    return told + Content(f"; this token {newest.total - newest.disk} of {newest.total}")
