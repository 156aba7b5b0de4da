"""The part of the chat screen that shows what the engine does: panes, the line for narrow windows, the status."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from textual import on, work
from textual.getters import query_one
from textual.timer import Timer

from colibri_tui import engine_link as link
from colibri_tui.conductor import Conductor
from colibri_tui.experts_known import Known, read_known
from colibri_tui.keys_first import hold
from colibri_tui.profiles import usage_path
from colibri_tui.render.looks import Looks
from colibri_tui.scene import History, Scene
from colibri_tui.screens.panes import PanesScreen
from colibri_tui.screens.studies import Studies
from colibri_tui.telemetry import Reads, Sample, reads_of
from colibri_tui.widgets.hud import Hud
from colibri_tui.widgets.pane_column import PaneColumn
from colibri_tui.widgets.panes import HIDDEN_AT_FIRST, PANE
from colibri_tui.widgets.panes.atlas_pane import AtlasPane
from colibri_tui.widgets.panes.pane import Pane
from colibri_tui.widgets.status_line import Stage, StatusLine
from engine.events import Turn

FRAME_SECONDS: Final = 0.1
REMOTE_FRAME_SECONDS: Final = 0.5
"""Over ssh every frame crosses a network."""
CALM_FRAME_SECONDS: Final = 1.0
"""For those who asked for little motion."""
FIGURES_SECONDS: Final = 0.5
"""Figures are renewed so often: more often they could not be read."""
LEAST_SHARES: Final = 3
"""Between two frames of the map one share of the panes with figures is drawn: a key never waits for all of them."""
SETTLE_SECONDS: Final = 0.03
"""After an answer every pane is drawn once more, one of them every so often, for the same reason."""
KNOWN_SECONDS: Final = 1.0
"""So long after an answer the profiles' histories are read anew, unless another one has begun: there is enough to do
when an answer ends."""


def shares(frame: float) -> int:
    """Return into how many shares the panes with figures are divided when the map has a frame every so many seconds."""
    return max(LEAST_SHARES, round(FIGURES_SECONDS / frame))


def frame_seconds(*, calm: bool = False) -> float:
    """Return the time between two frames of what the engine does."""
    if calm:
        return CALM_FRAME_SECONDS
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    return REMOTE_FRAME_SECONDS if remote else FRAME_SECONDS


def _loaded(sample: Sample | None) -> float:
    """Return the share of what is loaded in the background that is there, 1 if there is nothing to load."""
    done, wanted = sample.loading if sample is not None else (0, 0)
    return done / wanted if wanted else 1.0


class EngineView(Studies):
    """Samples the board while an answer runs, and draws it. Whoever derives from this composes the widgets."""

    conductor: Conductor
    side = query_one("#side", PaneColumn)
    hud = query_one("#hud", Hud)
    status = query_one("#status", StatusLine)

    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self._looks = looks
        self._frame_seconds = frame_seconds()
        self._ticker: Timer | None = None
        self._beats = 0
        self._settler: Timer | None = None
        self._watcher: Timer | None = None
        self._reader: Timer | None = None
        self._unsettled: list[Pane] = []  # panes that still show the answer under way
        self._resort = False  # the map was not drawn between two answers
        self._figures: Scene | None = None  # what all shares are drawn from
        self._sample: Sample | None = None
        self._reads: Reads | None = None  # of the turn that runs or ran last
        self._history = History()

    @property
    def gone(self) -> bool:
        """Whether the program ends: widgets may be taken away already."""
        return not self.app.is_running

    def on_resize(self) -> None:
        """Other widgets are seen now: they have not been kept up to date."""
        self.call_after_refresh(self.draw_sample)

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = looks
        self.side.set_looks(looks)
        self.hud.set_looks(looks)

    # What the conductor asks for

    def turn_began(self) -> None:
        """Draw the board from now on."""
        self._beats = 0
        self.side.selection.token = None
        self._resort = any(pane.NAME == AtlasPane.NAME for pane in self._unsettled)
        self._stop_settling()
        if self._ticker is None:
            self._ticker = self.set_interval(self._frame_seconds / 2, self._beat)

    def turn_ended(self, turn: Turn | None) -> None:
        """Draw the board once more, and then no longer."""
        self._stop_ticking()
        if turn is not None:
            self._history.answers += 1
            self._history.turn = turn
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=False) if telemetry else None
        if self._sample is not None:
            self._reads = reads_of(turn, self._sample.turn) if turn else self._sample.turn
        self._figures = self._scene()
        self._stop_settling()
        if self._figures is not None:
            self._unsettled = self.side.seen()
            self._settler = self.set_interval(SETTLE_SECONDS, self._settle)
            self.hud.show(self._figures.sample, self._figures.reads, settled=True)
        if self._reader is not None:
            self._reader.stop()
        self._reader = self.set_timer(KNOWN_SECONDS, self._read_known_in_peace)

    def model_changed(self) -> None:
        """Draw the new model's board, or nothing."""
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=False) if telemetry else None
        self._reads = self._sample.turn if self._sample else None
        self._history = History()
        self._stop_ticking()
        if self._sample is None:
            self.side.clear()
            self.hud.clear()
        else:
            self._read_known()
        self.draw_sample(settled=True)
        self._stop_watching()
        if _loaded(self._sample) < 1:
            self._watcher = self.set_interval(FIGURES_SECONDS, self._watch)

    # Drawing

    def _stop_ticking(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def _beat(self) -> None:
        """Draw a frame of the map, or after it a share of the figures; later, when a key has just come."""
        if hold(self.app):
            return
        frame, between = divmod(self._beats, 2)
        self._beats += 1
        number = shares(self._frame_seconds)
        if between:
            self._draw_share(frame % number, number)
        else:
            self._draw_frame(renew=frame % number == 0)

    def _settle(self) -> None:
        """Draw the next pane as it is after the answer; later, when a key has just come."""
        if hold(self.app) or self._figures is None or self.gone:
            return
        if self._unsettled:
            self.side.draw_one(self._unsettled.pop(0), self._figures)
        if not self._unsettled:
            self._stop_settling()

    def _stop_settling(self) -> None:
        self._unsettled = []
        if self._settler is not None:
            self._settler.stop()
            self._settler = None

    def _watch(self) -> None:
        """Draw how experts are loaded in the background, until all are there; an answer draws more than that."""
        telemetry = self.conductor.model.telemetry
        if self._ticker is not None or self.gone or hold(self.app):
            return
        if telemetry is not None:
            self._sample = telemetry.sample(live=False)
        if telemetry is None or _loaded(self._sample) == 1:
            self._stop_watching()
            self.draw_sample(settled=True)
        elif (scene := self._scene()) is not None:
            self.side.draw_atlas(scene)
            self.hud.show(scene.sample, scene.reads)
        self.draw_status()

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    def _draw_frame(self, *, renew: bool) -> None:
        """Sample the board and draw the map; renew: the figures that follow are this sample's."""
        telemetry = self.conductor.model.telemetry
        self._sample = telemetry.sample(live=True) if telemetry else None
        if self._sample is None:
            return
        self._reads = self._sample.turn
        if (scene := self._scene()) is not None:
            self._figures = scene if renew else self._figures
            self.side.draw_atlas(scene, settled=self._resort)
            self._resort = False
            self.hud.show(self._sample, self._reads)

    def _draw_share(self, share: int, number: int) -> None:
        """Draw one of so many shares of the panes with figures, and with the first one the status."""
        if self._figures is not None and not self.gone:
            self.side.draw_share(self._figures, share, number)
        if share == 0:
            self.draw_status()

    def _scene(self) -> Scene | None:
        """Return what was sampled last and what it is about; None if there is nothing to draw, or to draw on."""
        model = self.conductor.model
        if self._sample is None or self._reads is None or self.gone or model.telemetry is None or model.ready is None:
            return None
        return Scene(
            model.telemetry, self._sample, self._reads, model.ready, model.options, self._history,
            self.side.selection, live=self._ticker is not None,
        )  # fmt: skip

    def draw_sample(self, *, settled: bool = False) -> None:
        """Draw all of what was sampled last; settled: see `Atlas.show`."""
        settled = settled or bool(self._unsettled)
        self._stop_settling()
        if (scene := self._scene()) is not None:
            self.side.draw(scene, settled=settled)
            self.hud.show(scene.sample, scene.reads, settled=settled)

    def draw_status(self) -> None:
        """Say what is going on, and how fast."""
        status, sample = self.conductor.status, self._sample
        if sample is not None:
            live = sample.tok_s if self.conductor.answering else None
            used = sample.context_used if status.context_held else status.context_used
            status = replace(status, context_used=used, tok_s=live or status.tok_s)
            if status.stage is Stage.READY and _loaded(sample) < 1:
                status = replace(status, detail=f"(loading experts: {_loaded(sample):.0%})")
        self.status.status = status

    @on(link.EngineText)
    def _note_words(self, message: link.EngineText) -> None:
        if self.conductor.model.telemetry is not None and self._ticker is not None:
            self.conductor.model.telemetry.words.add(message.pieces)

    @on(link.EngineRepin)
    def _note_swap(self, message: link.EngineRepin) -> None:
        self._history.swaps.append((self._history.answers + 1, message.swap))

    # What other profiles know

    def _read_known_in_peace(self) -> None:
        if self._ticker is None and not self.gone:
            self._read_known()

    @work(thread=True, exclusive=True, group="known")
    def _read_known(self) -> None:
        """Read the profiles' histories; a chosen expert is compared with them."""
        model = self.conductor.model
        if model.ready is None or model.folder is None:
            return
        folder = Path(model.folder) if Path(model.folder).is_dir() else Path(model.folder).parent
        pairs = (usage_path(model.profile, model.key).with_name(".coli_pairs"), folder / ".coli_pairs")
        known = read_known(model.key, model.ready.layers, model.ready.experts, pairs)
        self.app.call_from_thread(self._learn, known)

    def _learn(self, known: Known) -> None:
        if not self.gone:
            self.side.learn(known)

    # Which panes are seen

    @property
    def layout_state(self) -> dict[str, Any]:
        """What the next start of the program should find, see `settings.State.layout`."""
        return {"side": not self.has_class("-no-side"), "hidden": sorted(self.side.hidden)}

    def restore_layout(self, layout: dict[str, Any]) -> None:
        """Show what was shown last time; what is not understood is left as it is at first."""
        self.set_class(layout.get("side") is False, "-no-side")
        hidden = layout.get("hidden")
        if isinstance(hidden, list):
            self.side.hidden = {name for name in hidden if isinstance(name, str) and name in PANE}
        else:
            self.side.hidden = set(HIDDEN_AT_FIRST)

    def layout_changed(self) -> None:
        """Panes were shown, hidden or enlarged."""
        self.set_class(self.side.enlarged is not None, "-enlarged")
        self.refresh_bindings()
        self.call_after_refresh(self.draw_sample)

    @on(PaneColumn.Changed)
    def _panes_changed(self) -> None:
        self.layout_changed()

    def enlarge(self, name: str) -> None:
        """Give a pane the whole screen, or the chat its place back if it has it."""
        name_now = None if self.side.enlarged == name else name
        self.side.enlarge(name_now)
        self.layout_changed()
        self.call_after_refresh(self._focus_enlarged)

    def _focus_enlarged(self) -> None:
        if self.side.enlarged is None:
            self.query_one("#composer").focus()
        elif self.side.enlarged == "atlas":
            self.side.atlas.focus()
        else:
            self.side.pane(self.side.enlarged).focus()

    def leave_enlarged(self) -> bool:
        """Give the chat its place back; return whether it was taken."""
        if self.side.enlarged is None:
            return False
        self.enlarge(self.side.enlarged)
        return True

    def action_side(self) -> None:
        """Show or hide what stands beside the chat."""
        self.toggle_class("-no-side")
        self.layout_changed()

    def action_panes(self) -> None:
        """Choose which panes are shown."""

        def chosen(name: str | None) -> None:
            if name is not None:
                self.enlarge(name)
            else:
                self.layout_changed()

        self.app.push_screen(PanesScreen(self.side), chosen)

    def action_pane(self, name: str = "") -> None:
        """Show or hide the pane of this name."""
        if name not in PANE:
            self.notify(f"There is no pane {name}; there are {', '.join(PANE)}", severity="warning", markup=False)
            return
        shown = self.side.toggle(name)
        self.layout_changed()
        self.notify(f"{PANE[name].TITLE}: {'shown' if shown else 'hidden'}")

    def action_atlas(self) -> None:
        """Enlarge the atlas, or put it back."""
        self.enlarge("atlas")

    def action_tiers(self) -> None:
        """The same for the tiers."""
        self.enlarge("tiers")

    def action_speed(self) -> None:
        """The same for the speed."""
        self.enlarge("speed")

    def action_keff(self) -> None:
        """The same for the experts a token."""
        self.enlarge("keff")

    def action_swaps(self) -> None:
        """The same for the swaps."""
        self.enlarge("swaps")

    def action_expert(self) -> None:
        """The same for the chosen expert."""
        self.enlarge("expert")

    def action_path(self) -> None:
        """The same for the way of a token."""
        self.enlarge("path")

    def action_view(self) -> None:
        """Switch the atlas between heat and tiers."""
        self.side.atlas.action_view()

    def action_order(self) -> None:
        """Switch the order of experts."""
        self.side.atlas.action_order()
