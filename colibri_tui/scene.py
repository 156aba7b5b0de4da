"""All that panes draw from, at one moment. Knows no screen."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

from colibri_tui.telemetry import Reads, Sample, Telemetry
from colibri_tui.trail import Trail, Words
from engine.events import Ready, Repin, Turn
from engine.options import EngineOptions

SWAPS = 200
"""Exchanges of pins that are remembered."""


@dataclass(slots=True)
class History:
    """What happened since the model was loaded, the newest last. swaps: (number of the answer, exchange)."""

    answers: int = 0
    swaps: deque[tuple[int, Repin]] = field(default_factory=lambda: deque(maxlen=SWAPS))
    turn: Turn | None = None


@dataclass(slots=True)
class Selection:
    """What a person looks at. expert: (index into the layers shown, expert). token: its number; None: the newest."""

    expert: tuple[int, int] | None = None
    token: int | None = None


class Scene:
    """A sample of the board and what it is about.

    reads: of the answer that runs or ran last. live: whether one runs.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        sample: Sample,
        reads: Reads,
        ready: Ready,
        options: EngineOptions,
        history: History,
        selection: Selection,
        *,
        live: bool = False,
    ) -> None:
        self._telemetry = telemetry
        self.sample, self.reads, self.ready, self.options = sample, reads, ready, options
        self.history, self.selection, self.live = history, selection, live

    @cached_property
    def trail(self) -> Trail:
        """The last tokens; copied when first asked for."""
        return self._telemetry.trail()

    @property
    def words(self) -> Words:
        """Their text."""
        return self._telemetry.words
