"""The lab: what more memory would do, how the profile learned, what it is worth. Plots, each with its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import ScrollableContainer, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static
from textual_plot import HiResMode, LegendLocation, NumericAxisFormatter, PlotWidget
from textual_plot.axis_formatter import CategoricalAxisFormatter

from colibri_tui.bindings import bind
from colibri_tui.lab_data import Day, Matrix, by_day, read_matrix
from colibri_tui.render.clean import clean
from colibri_tui.render.looks import Looks
from colibri_tui.render.units import rate, size
from colibri_tui.widgets.keys_footer import KeysFooter
from engine.errors import EngineError
from engine.events import MemoryCurve
from engine.turn_log import read_turns

VIEWS: Final = ("memory", "learning", "matrix")
TITLES: Final = {"memory": "Memory", "learning": "Learning", "matrix": "A/B"}
AXES: Final = {
    "memory": "hits in % over GB for experts",
    "learning": "% over days since the first answer",
    "matrix": "hits in % on held-out prompts, by workload",
}
"""In the head, because the plot does not wipe an old label off before it writes another."""
OPTIMUM: Final = "min"
COLOURS: Final = ("accent", "primary", "success", "warning", "secondary", "error")
GB: Final = 1e9

Ask = Callable[[], bool]
"""Asks the engine for a curve; whether there is one to ask."""


class LabScreen(Screen[None]):
    """Three views: 1 the hit rate against memory, 2 the days, 3 profiles against workloads. n: as numbers."""

    AUTO_FOCUS = ""
    CSS_PATH = Path(__file__).with_suffix(".tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("lab_memory", "view('memory')"),
        bind("lab_learning", "view('learning')"),
        bind("lab_matrix", "view('matrix')"),
        bind("lab_numbers", "numbers"),
        bind("lab_again", "again"),
        bind("close", "close"),
        bind("lab", "close", show=False),
    ]
    plot = query_one(PlotWidget)
    table = query_one("#table", Static)
    told = query_one("#told", Static)

    def __init__(self, looks: Looks, ask: Ask, turns: Path | None, matrix: Path | None) -> None:
        """turns, matrix: the profile's files, None without a model."""
        super().__init__()
        self._looks, self._ask, self._turns, self._matrix_path = looks, ask, turns, matrix
        self._view = VIEWS[0]
        self._numbers = not looks.glyphs.upper_half  # plots need braille
        self._curve: MemoryCurve | None = None
        self._days: list[Day] = []
        self._matrix: Matrix | None = None
        self._problem = ""
        self._asked = False

    def compose(self) -> ComposeResult:
        """Head, plot or table, and a line that says what is seen."""
        yield Static(id="head")
        with Vertical(id="body"):
            yield PlotWidget(allow_pan_and_zoom=False)
            with ScrollableContainer(id="numbers"):
                yield Static(id="table")
        yield Static(id="told")
        yield KeysFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Ask for what is not there yet."""
        self.plot.can_focus = False
        self.action_again()

    def action_again(self) -> None:
        """Read the files, and ask the engine for a new curve."""
        self._asked = self._ask()
        self._read()
        self._draw()

    @work(thread=True, exclusive=True, group="lab")
    def _read(self) -> None:
        problem, days, matrix = "", [], None
        try:
            days = by_day(read_turns(self._turns)) if self._turns else []
            matrix = read_matrix(self._matrix_path) if self._matrix_path else None
        except EngineError as error:
            problem = str(error)
        self.app.call_from_thread(self._take, days, matrix, problem)

    def _take(self, days: list[Day], matrix: Matrix | None, problem: str) -> None:
        self._days, self._matrix, self._problem = days, matrix, problem
        if self.is_attached:
            self._draw()

    def show_curve(self, curve: MemoryCurve) -> None:
        """The engine has drawn the curve."""
        self._curve = curve
        if self.is_attached:
            self._draw()

    def set_looks(self, looks: Looks) -> None:
        """Draw in other colours."""
        self._looks = looks
        self._draw()

    def action_view(self, name: str) -> None:
        """Show another view."""
        self._view = name
        self._draw()

    def action_numbers(self) -> None:
        """Plot or numbers."""
        self._numbers = not self._numbers
        self._draw()

    def action_close(self) -> None:
        """Back to the chat."""
        self.dismiss(None)

    def on_resize(self) -> None:
        """Plots follow the size."""
        self.call_after_refresh(self._draw)

    # Drawing

    def _draw(self) -> None:
        words = [
            (f" {n} {TITLES[view]} ", "bold reverse" if view == self._view else "$text-muted")
            for n, view in enumerate(VIEWS, 1)
        ]
        axes = (f"  {AXES[self._view]}", "$text-muted")
        self.query_one("#head", Static).update(Content.assemble(("lab ", "bold"), *words, axes))
        draw = {"memory": self._draw_memory, "learning": self._draw_learning, "matrix": self._draw_matrix}
        self.plot.clear()
        plotted, lines, told = draw[self._view]()
        plotted = plotted and not self._numbers
        self.plot.display = plotted
        self.query_one("#numbers").display = not plotted
        self.query_one("#body").display = plotted or bool(lines)
        self.table.update(Content("\n").join(lines))
        self.told.update(told)

    def _colour(self, name: str) -> str:
        """A colour of the theme, as the plot takes it; with NO_COLOR it draws none of them."""
        return self.app.theme_variables.get(name, "default").removeprefix("ansi_").replace("bright_", "bright_")

    def _draw_memory(self) -> tuple[bool, list[Content], Content]:
        curve = self._curve
        if curve is None or not curve.tokens:
            why = (
                "Not enough tokens yet: let the model write some more." if curve else "The engine is drawing the curve."
            )
            return False, [], Content(why if self._asked else "There is no engine to ask: load a model first.")
        x = [count / GB for count in curve.bytes]
        for n, (policy, rates) in enumerate(curve.rates.items()):
            label = "optimum (knows the future)" if policy == OPTIMUM else policy
            self._line(x, [100 * share for share in rates], COLOURS[n % len(COLOURS)], label)
        here = curve.caps.index(curve.cap) if curve.cap in curve.caps else None
        if here is not None:
            self.plot.add_v_line(x[here], self._colour("foreground"), "you are here")
        self._axes(x)
        told = f"Decode look-ups of the last {curve.tokens} tokens in {curve.layers} layers."
        if here is not None and curve.policy in curve.rates:
            told = (
                f"You are here: {curve.cap} slots a layer, {size(curve.bytes[here])}, policy {curve.policy}, "
                f"{100 * curve.rates[curve.policy][here]:.1f} % hits. {told}"
            )
        return True, memory_table(curve), Content(told)

    def _draw_learning(self) -> tuple[bool, list[Content], Content]:
        days = [day for day in self._days if day.rate is not None]
        if not days:
            return False, [], Content(self._problem or "No answers were logged yet: this profile has not learned.")
        x = [float(day.number) for day in days]
        self._line(x, [100 * (day.rate or 0) for day in days], "accent", "hits %")
        fast = max((day.tok_s or 0 for day in days), default=0)
        timed = [(float(day.number), day.tok_s) for day in days if day.tok_s]
        if timed and fast:
            self._line(
                [t for t, _ in timed], [100 * s / fast for _, s in timed], "primary", f"speed, 100 = {rate(fast)}"
            )
        self._axes([0.0, max(x[-1], 1.0)])
        first, last = days[0], days[-1]
        told = (
            f"{sum(day.turns for day in days)} answers on {len(days)} days: {_percent(first.rate)} hits on the first, "
        )
        return True, learning_table(self._days), Content(f"{told}{_percent(last.rate)} on the last ({last.name}).")

    def _draw_matrix(self) -> tuple[bool, list[Content], Content]:
        matrix = self._matrix
        if matrix is None:
            return (
                False,
                [],
                Content(self._problem or "No matrix yet: `colibri-tui ab MODEL` measures one; then press r."),
            )
        works = [clean(work) for work in matrix.cold]
        groups = [(clean(row.name), {work: pinned for work, (_, pinned) in row.rates.items()}) for row in matrix.rows]
        groups.insert(0, ("nothing", matrix.cold))
        width = 0.8 / len(groups)
        for n, (name, rates) in enumerate(groups):
            x = [1 + i + (n - (len(groups) - 1) / 2) * width for i in range(len(works))]
            y = [100 * rates.get(work, 0.0) for work in matrix.cold]
            style = self._colour("foreground" if n == 0 else COLOURS[(n - 1) % len(COLOURS)])
            self.plot.bar(x, y, 0.9 * width, style, label=name)
        self._axes([0.4, len(works) + 0.6], LegendLocation.TOPRIGHT)
        self.plot.set_x_formatter(CategoricalAxisFormatter(works))
        self.plot.set_xticks([float(i + 1) for i in range(len(works))])
        told = "  ".join(f"{clean(row.name)}: {clean(row.verdict)}" for row in matrix.rows)
        return True, matrix_table(matrix), Content(f"Bars: what was learned from. {told}")

    def _line(self, x: Sequence[float], y: Sequence[float], colour: str, label: str) -> None:
        """A line; a single point is a dot."""
        mode = HiResMode.BRAILLE
        if len(x) == 1:
            self.plot.scatter(x, y, marker_style=self._colour(colour), label=label)
        else:
            self.plot.plot(x, y, line_style=self._colour(colour), hires_mode=mode, label=label)

    def _axes(self, x: Sequence[float], legend: LegendLocation = LegendLocation.BOTTOMRIGHT) -> None:
        """Fixed scales: a ratio that hardly moves is drawn as one."""
        self.plot.set_ylimits(0, 100)
        self.plot.set_xlimits(min(x), max(x) if max(x) > min(x) else min(x) + 1)
        self.plot.set_x_formatter(NumericAxisFormatter())
        self.plot.set_xticks(None)
        self.plot.show_legend(legend)


def memory_table(curve: MemoryCurve) -> list[Content]:
    """Return the curve as numbers; the present size is marked."""
    policies = list(curve.rates)
    heads = "".join(f"{'optimum' if policy == OPTIMUM else policy:>8}" for policy in policies)
    lines = [Content.styled(f"   {'slots':>6} {'memory':>9} {'forecast':>12}{heads}", "$text-muted")]
    for n, cap in enumerate(curve.caps):
        rates = "".join(f"{100 * curve.rates[policy][n]:>7.1f}%" for policy in policies)
        speed = curve.tok_s[n] if n < len(curve.tok_s) else None
        forecast = rate(speed) if speed is not None and math.isfinite(speed) else "-"
        here = cap == curve.cap
        text = f" {'>' if here else ' '} {cap:>6} {size(curve.bytes[n]):>9} {forecast:>12}{rates}"
        lines.append(Content.styled(text, "bold" if here else ""))
    return lines


def learning_table(days: Sequence[Day]) -> list[Content]:
    """Return a line a day, the newest first."""
    lines = [Content.styled(f" {'day':<10} {'answers':>8} {'tokens':>8} {'hits':>7} {'speed':>12}", "$text-muted")]
    for day in reversed(days):
        speed = rate(day.tok_s) if day.tok_s else "-"
        lines.append(Content(f" {day.name:<10} {day.turns:>8,} {day.tokens:>8,} {_percent(day.rate):>7} {speed:>12}"))
    return lines


def matrix_table(matrix: Matrix) -> list[Content]:
    """Return a line a profile: hits by workload, in brackets what pins change."""
    works = list(matrix.cold)
    heads = "".join(f"{clean(work)[:14]:>16}" for work in works)
    lines = [
        Content.styled(f" {'learned from':<14}{heads}   pins", "$text-muted"),
        Content(f" {'nothing':<14}" + "".join(f"{100 * matrix.cold[work]:>15.1f}%" for work in works)),
    ]
    for row in matrix.rows:
        cells = ""
        for name in works:
            off, pinned = row.rates.get(name, (math.nan, math.nan))
            cells += f"{f'{100 * pinned:.1f}% ({100 * (pinned - off):+.1f})':>16}"
        lines.append(Content(f" {clean(row.name)[:14]:<14}{cells} {row.pins:>6,}"))
    notes = [Content.styled(f" {clean(row.name)}: {clean(row.reason)}", "$text-muted") for row in matrix.rows]
    return [*lines, Content(""), *notes]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"
