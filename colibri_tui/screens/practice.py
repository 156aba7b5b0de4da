"""Practice: a workload is chosen, its prompts run while the atlas fills, and held-out ones tell whether pins help."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from colibri_tui import engine_link as link
from colibri_tui import practice
from colibri_tui.bindings import bind, keymap_of
from colibri_tui.practice import OWN, WORKLOADS, Practice, Totals
from colibri_tui.render.bars import meter
from colibri_tui.render.clean import clean
from colibri_tui.render.looks import Looks
from colibri_tui.telemetry import Sample
from colibri_tui.widgets.atlas import Atlas
from colibri_tui.widgets.choice_list import ChoiceList
from engine.errors import EngineError
from engine.experts.pins import SELECTIONS_FULL, SELECTIONS_MIN

if TYPE_CHECKING:
    from colibri_tui.conductor import Conductor

METER: Final = 30
SHOWN: Final = 400
"""Characters of the answer that are seen while it grows."""


class PracticeScreen(ModalScreen[bool]):
    """Ends with whether pins are to be turned on. `hear` takes what the engine says while it is open."""

    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("close", "leave", priority=True),
        bind("practice_begin", "own", priority=True),
        bind("practice_measure", "measure"),
        bind("practice_anew", "anew"),
        bind("practice_accept", "accept"),
    ]

    body = query_one("#body", Static)
    hint = query_one("#hint", Static)
    atlas = query_one(Atlas)

    def __init__(self, conductor: Conductor, looks: Looks, frame_seconds: float) -> None:
        super().__init__()
        self._conductor, self._looks, self._frame_seconds = conductor, looks, frame_seconds
        model = conductor.model
        self._path = practice.path_for(model.profile, model.key)
        self._practice: Practice | None = practice.load(self._path)
        self._turn = 0  # the engine's number of the turn that counts; 0: none does
        self._measured = 0  # held-out prompts that are done, this way
        self._totals = Totals()
        self._text = ""
        self._error = ""
        self._options = dict(model.changes)  # to be restored
        self._sample: Sample | None = None

    def compose(self) -> ComposeResult:
        """What goes on, what one does, and the atlas."""
        with Vertical(id="box") as box:
            box.border_title = f"Practice: profile {clean(self._conductor.model.profile)}"
            with Horizontal():
                with Vertical(id="left"):
                    yield Static(id="body")
                    yield ChoiceList(id="list")
                    yield TextArea(id="own")
                    yield Static(id="hint")
                yield Atlas(self._looks)

    def on_mount(self) -> None:
        """Go on where it was left, or let a workload be chosen."""
        rows = [Option(Content.assemble(n.ljust(14), (w, "$text-muted"))) for n, w in WORKLOADS.items()]
        self.query_one(OptionList).add_options(
            [*rows, Option(Content.assemble(OWN.ljust(14), ("prompts that you paste", "$text-muted")))]
        )
        self.set_interval(self._frame_seconds, self._tick)
        self._tick()
        if self._practice is None:
            self._choose()
        else:
            self._go_on()

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = self.atlas.looks = looks
        self._draw()

    # Choosing

    def _choose(self) -> None:
        self._set_class("-choosing")
        self._show(
            "A few typical prompts teach this profile which experts they use. Then others like them, which it has not "
            "seen, tell whether it pays to keep its favourites in memory for good.",
            "{list_choose} begins   {close} leaves",
        )
        self.query_one(OptionList).highlighted = 0
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        names = [*WORKLOADS, OWN]
        if names[message.option_index] == OWN:
            self._set_class("-own")
            self._show("Your prompts, with an empty line between them:", "{practice_begin} begins   {close} leaves")
            self.query_one(TextArea).focus()
        else:
            self._begin(names[message.option_index])

    def action_own(self) -> None:
        """Begin with the prompts that were pasted."""
        if self.has_class("-own"):
            self._begin(OWN, self.query_one(TextArea).text)

    def _begin(self, workload: str, own: str = "") -> None:
        try:
            self._practice = practice.begin(workload, own)
        except EngineError as error:
            self._show(str(error), "{practice_begin} begins   {close} leaves")
        else:
            self._go_on()

    def action_anew(self) -> None:
        """Choose again."""
        if self._practice is not None and self._turn == 0 and not self.has_class("-choosing"):
            self._practice = None
            self._choose()

    # Running

    def _go_on(self) -> None:
        """Do what comes next: another prompt, another start of the engine, or tell the result."""
        run = self._practice
        assert run is not None
        self._set_class("-running")
        self.set_focus(None)
        try:
            practice.save(self._path, run)
        except EngineError as error:
            self._error = str(error)
        if run.stage == "done":
            self._restore()
            self._tell_result(run)
        elif run.stage == "learn":
            self._ask(run.prompts[run.learned], practice.LEARN_TOKENS)
        else:
            wanted = {"pin": "off" if run.stage == "off" else "auto", "learn": False}
            if self._changes_missing(wanted):
                self._measured, self._totals = 0, Totals()
                self._conductor.restart_with({**self._options, **wanted})
            elif self._measured < len(run.held_out):
                self._ask(run.held_out[self._measured], practice.MEASURE_TOKENS, greedy=True)
            else:
                self._measured_all(run)

    def _measured_all(self, run: Practice) -> None:
        ready = self._conductor.model.ready
        self._totals.pinned_bytes = ready.plan.pins if ready else 0
        if run.stage == "off":
            run.off = self._totals
        else:
            run.on = self._totals
        self._go_on()

    def _changes_missing(self, wanted: Mapping[str, object]) -> bool:
        options = self._conductor.model.options
        return any(getattr(options, name) != value for name, value in wanted.items())

    def _ask(self, prompt: str, most: int, *, greedy: bool = False) -> None:
        """Let the engine answer a prompt, as soon as it can."""
        self._text = ""
        self._turn = self._conductor.borrow(prompt, most, greedy=greedy)

    def action_measure(self) -> None:
        """Learn from no more prompts, if there is enough to go by."""
        run = self._practice
        if run is not None and run.stage == "learn" and self._selections >= SELECTIONS_MIN:
            run.skip()
            self._conductor.stop_borrowed()

    def hear(self, message: link.EngineMessage) -> None:
        """Take a message of the engine; the conductor has had it before."""
        run = self._practice
        match message:
            case link.EngineReady() if run is not None and self.has_class("-running") and run.stage != "done":
                self._go_on()
            case link.EngineText() if message.turn == self._turn:
                self._text = (self._text + message.reasoning + message.text)[-SHOWN:]
            case link.EngineTurn() if message.turn == self._turn and run is not None:
                self._turn = 0
                self._ended(run, message)
            case link.EngineTurn() if run is not None and self.has_class("-running") and self._turn == 0:
                self._go_on()  # the engine was busy with something else
            case link.EngineError() | link.EngineDied():
                self._turn = 0
                self._error = message.text
        self._draw()

    def _ended(self, run: Practice, message: link.EngineTurn) -> None:
        """A prompt was answered."""
        if run.stage == "learn":
            run.learned += 1
        elif message.summary.stop != "user" and self._measured < len(run.held_out):
            self._totals.add(message.summary)
            self._measured += 1
        self._go_on()

    # What is seen

    @property
    def _selections(self) -> int:
        """How many choices of experts the history and this run hold."""
        sample = self._sample
        return int(sample.heat.sum()) if sample is not None else 0

    def _tick(self) -> None:
        telemetry = self._conductor.model.telemetry
        self._sample = telemetry.sample(live=self._turn != 0) if telemetry else None
        if self._sample is not None and self.atlas.display:
            self.atlas.show(self._sample)
        self._draw()

    def _draw(self) -> None:
        """Say how far it is."""
        run = self._practice
        if run is None or not self.has_class("-running") or run.stage == "done":
            return
        if self._error:
            self._show(f"{self._error}", "{close} leaves; what was done so far is kept")
            return
        enough = self._selections >= SELECTIONS_MIN
        lines = [self._heading(run), self._choices(), ""]
        if self._turn == 0:
            progress = self._conductor.progress
            lines.append(f"{progress[0]} ..." if progress else "...")
        else:
            asked = run.prompts[run.learned] if run.stage == "learn" else run.held_out[self._measured]
            lines += [f"> {clean(asked)[:200]}", "", clean(self._text)]
        measure = "{practice_measure} measures now   " if run.stage == "learn" and enough else ""
        self._show("\n".join(lines), f"{measure}{{close}} leaves, and it goes on from here the next time")

    def _heading(self, run: Practice) -> str:
        if run.stage == "learn":
            return f"1 of 3: learning from prompt {run.learned + 1} of {len(run.prompts)} ({run.workload})"
        number, pins = (2, "off") if run.stage == "off" else (3, "on")
        done = f"prompt {min(self._measured + 1, len(run.held_out))} of {len(run.held_out)}"
        return f"{number} of 3: pins {pins}, held-out {done}, without learning"

    def _choices(self) -> str:
        """Return the line about the history, against what pins need."""
        if self._sample is None:
            return ""  # the engine starts: nothing is known
        count, glyphs = self._selections, self._looks.glyphs
        bar = meter(min(count / SELECTIONS_MIN, 1.0), METER, glyphs.meter, glyphs.meter_rest)
        if count < SELECTIONS_MIN:
            return f"{bar} {count:,} of {SELECTIONS_MIN:,} choices of experts"
        more = f"; trusted fully from {SELECTIONS_FULL:,} on" if count < SELECTIONS_FULL else ""
        return f"{count:,} choices of experts: enough{more}"

    def _tell_result(self, run: Practice) -> None:
        assert run.off is not None
        assert run.on is not None
        result = practice.verdict(run.off, run.on)
        turn_on = "{practice_accept} turns pins on (--pin auto, for every start)   " if run.on.pinned_bytes else ""
        if self._conductor.model.options.pin == "auto":
            turn_on = "Pins are on already   "
        self._show("\n".join(result.lines), f"{turn_on}{{practice_anew}} begins anew   {{close}} leaves it as it is")

    def _show(self, body: str, hint: str) -> None:
        if self.query("#body"):  # when the program ends, the engine may tell more while the screen is taken away
            self.body.update(Content(body))
            self.hint.update(Content(keymap_of(self.app).fill(hint)))

    def _set_class(self, name: str) -> None:
        for other in ("-choosing", "-own", "-running"):
            self.set_class(other == name, other)

    # Leaving

    def action_accept(self) -> None:
        """Turn pins on, once there is a result."""
        run = self._practice
        if run is not None and run.stage == "done" and run.on is not None and run.on.pinned_bytes:
            self.dismiss(True)

    def action_leave(self) -> None:
        """Leave; what was done is kept."""
        self._turn = 0
        self._conductor.stop_borrowed()
        self._restore()
        self.dismiss(False)

    def _restore(self) -> None:
        """Let the engine run as it did before."""
        if self._conductor.model.changes != self._options:
            self._conductor.restart_with(dict(self._options))
