"""Screens of their own about what the engine does: a replayed trace, two profiles compared, the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from textual import on
from textual.screen import Screen

from colibri_tui import engine_link as link
from colibri_tui.conductor import Conductor
from colibri_tui.lab_data import MATRIX_NAME
from colibri_tui.profiles import list_profiles, usage_path
from colibri_tui.render.clean import clean
from colibri_tui.render.looks import Looks
from colibri_tui.telemetry import Sample
from engine.errors import EngineError
from engine.events import MemoryCurve
from engine.turn_log import log_path


@runtime_checkable
class CurveScreen(Protocol):
    """A screen that shows what the engine drew."""

    def show_curve(self, curve: MemoryCurve) -> None:
        """Show it."""


def two_profiles(text: str) -> tuple[str, str]:
    """Return the two profiles that a text names; names may have spaces. Raises EngineError for any other text."""
    names = list_profiles()
    for first in sorted(names, key=len, reverse=True):
        second = text.strip().removeprefix(f"{first} ").strip()
        if text.strip().startswith(f"{first} ") and second in names:
            return first, second
    raise EngineError(f"/compare A B takes two profiles of {', '.join(names)}")


class Studies(Screen[None]):
    """Opens them. Whoever derives from this keeps the sample."""

    conductor: Conductor
    _looks: Looks
    _frame_seconds: float
    _sample: Sample | None

    def action_replay(self, file: str = "") -> None:
        """Play a recorded trace."""
        from colibri_tui.replay import present
        from colibri_tui.screens.replay import ReplayScreen

        path, model = Path(file.strip()).expanduser(), self.conductor.model
        if path.is_file():
            now = present(model.ready, model.options, self._sample) if model.ready and self._sample else None
            shape = (model.ready.moe_layers, model.ready.experts) if model.ready else None
            self.app.push_screen(ReplayScreen(path, self._looks, self._frame_seconds, shape, now))
        else:
            self.notify(f"{clean(file)}: there is no such file; --route-trace FILE records one", severity="warning",
                        markup=False)  # fmt: skip

    def action_compare(self, names: str = "") -> None:
        """Compare two profiles of this model."""
        from colibri_tui.screens.compare import CompareScreen

        model, sample = self.conductor.model, self._sample
        try:
            first, second = two_profiles(names)
        except EngineError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if model.ready is None or sample is None:
            self.notify("Load a model first: profiles are compared for one model", severity="warning")
            return
        self.app.push_screen(CompareScreen((first, second), model.key, sample, model.ready.layers, self._looks))

    def action_lab(self) -> None:
        """Open the lab."""
        from colibri_tui.screens.lab import LabScreen  # its plots are loaded when they are wanted

        model = self.conductor.model
        history = usage_path(model.profile, model.key) if model.key else None
        self.app.push_screen(
            LabScreen(
                self._looks,
                self.conductor.draw_curve,
                log_path(history) if history else None,
                history.with_name(MATRIX_NAME) if history else None,
            )
        )

    @on(link.EngineCurve)
    def _hear_curve(self, message: link.EngineCurve) -> None:
        for screen in self.app.screen_stack:
            if isinstance(screen, CurveScreen):
                screen.show_curve(message.curve)
