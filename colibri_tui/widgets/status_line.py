"""One line about model, state, speed and context. What does not fit is left out, the least needed first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from textual.content import Content
from textual.widgets import Static

from colibri_tui.render.bars import meter
from colibri_tui.render.clean import clean
from colibri_tui.render.glyphs import Glyphs
from colibri_tui.render.units import rate, seconds
from engine.options import KNOBS, EngineOptions

METER = 8
NAME_MAX = 32


class Stage(Enum):
    """What is going on, in the words of the status line."""

    NO_MODEL = "no model"
    LOADING = "loading"
    READY = "ready"
    PROMPT = "reading the prompt"
    ANSWERING = "answering"
    STOPPING = "stopping"
    REFUSED = "model refused"
    DIED = "engine died"


_COLOURS = {
    Stage.READY: "$success",
    Stage.PROMPT: "$accent",
    Stage.ANSWERING: "$accent",
    Stage.LOADING: "$accent",
    Stage.STOPPING: "$warning",
    Stage.REFUSED: "$error",
    Stage.DIED: "$error",
}


@dataclass(frozen=True, slots=True)
class Status:
    """All that the line may say. Times in seconds; None and '' where there is nothing to say."""

    stage: Stage = Stage.NO_MODEL
    detail: str = ""  # progress, such as 5/23
    model: str = ""
    profile: str = ""
    lossy: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()  # what is set for this conversation
    draft: int = 0  # tokens that wait in the composer
    queued: int = 0
    tok_s: float | None = None
    ttft_s: float | None = None
    context_used: int | None = 0  # None: nobody knows before the next prompt
    context_held: bool = True  # the engine has them; otherwise so many were counted some time ago
    context: int = 0


def lossy_options(options: EngineOptions) -> tuple[str, ...]:
    """Return the options in force that change what the model answers, as they would be typed."""
    return tuple(
        f"{knob.flag} {getattr(options, knob.name)}"
        for knob in KNOBS
        if knob.lossy and getattr(options, knob.name) is not None
    )


def _used(status: Status) -> str:
    if status.context_used is None:
        return "?"
    return f"{'' if status.context_held or not status.context_used else '~'}{status.context_used}"


def _short(name: str) -> str:
    name = clean(name)
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…"


def fields(status: Status, glyphs: Glyphs) -> list[tuple[int, bool, Content]]:
    """Return (rank, at the right edge, words) of all that can be said, in order; rank 0 is needed most."""
    state = f"{status.stage.value} {status.detail}".rstrip()
    listed: list[tuple[int, bool, Content]] = [
        (0, False, Content.styled(state, f"bold {_COLOURS.get(status.stage, '')}".rstrip()))
    ]
    if status.queued:
        listed.append((2, False, Content.styled(f"{status.queued} queued", "$warning")))
    if status.model:
        listed.append((4, False, Content(_short(status.model))))
    if status.profile:
        listed.append((7, False, Content.styled(f"profile {_short(status.profile)}", "$text-muted")))
    if status.lossy:
        listed.append((1, False, Content.styled(f"lossy: {' '.join(status.lossy)}", "bold $warning")))
    if status.chosen:
        listed.append((7, False, Content.styled(", ".join(status.chosen), "$text-muted")))
    if status.tok_s is not None:
        listed.append((3, True, Content.styled(rate(status.tok_s), "bold")))
    if status.ttft_s is not None:
        listed.append((8, True, Content.styled(f"first token {seconds(status.ttft_s)}", "$text-muted")))
    if status.context:
        share = ((status.context_used or 0) + status.draft) / status.context
        colour = "bold $error" if share > 1 else "$warning" if share > 0.9 else "$text-muted"
        bar = meter(min(share, 1.0), METER, glyphs.meter, glyphs.meter_rest)
        draft = f" + {status.draft}" if status.draft else ""
        listed.append((6, True, Content.styled(f"context {bar}", colour)))
        listed.append((5, True, Content.styled(f"{_used(status)}{draft}/{status.context}", colour)))
    return listed


def line(status: Status, glyphs: Glyphs, width: int) -> Content:
    """Return the line: the state and names at the left, the figures at the right, `width` columns in all."""
    listed = fields(status, glyphs)
    gap = Content("  ")
    while True:
        left = gap.join([words for _, right, words in listed if not right])
        right = gap.join([words for _, right, words in listed if right])
        space = width - left.cell_length - right.cell_length
        if space >= (2 if right else 0) or len(listed) == 1:
            return left + Content(" " * max(space, 0)) + right
        listed.remove(max(listed, key=lambda entry: entry[0]))


class StatusLine(Static):
    """Draws a `Status`."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._status = Status()
        self._drawn: Content | None = None

    @property
    def status(self) -> Status:
        """What the line says."""
        return self._status

    @status.setter
    def status(self, status: Status) -> None:
        self._status = status
        self._draw()

    def on_resize(self) -> None:
        """Other things fit now."""
        self._draw()

    def _draw(self) -> None:
        words = line(self._status, self._glyphs, self.size.width)
        if words != self._drawn:
            self._drawn = words
            self.update(words, layout=False)
