"""The leaves of a document: paragraphs, code, rules, gaps. Tables have their own module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.cells import cell_len
from textual.content import Content

from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import Parts, Row, cells, fit

_CONTINUED: Final[Parts] = (("↪ ", Mark.FOLD),)


@dataclass(frozen=True, slots=True)
class Margin:
    """What the containers around a block (quotes, list items) put in front of its lines.

    first, rest: drawn before the first and before all further lines.
    lead, lead_rest: copied in their place.
    """

    first: Parts = ()
    rest: Parts = ()
    lead: str = ""
    lead_rest: str = ""

    def __add__(self, inner: Margin) -> Margin:
        return Margin(
            self.first + inner.first,
            self.rest + inner.rest,
            self.lead + inner.lead,
            self.lead_rest + inner.lead_rest,
        )

    @property
    def continued(self) -> Margin:
        """The margin of everything after the first line."""
        return Margin(self.rest, self.rest, self.lead_rest, self.lead_rest)


NO_MARGIN: Final = Margin()


@dataclass(frozen=True, slots=True)
class Prose:
    """The lines of a paragraph or heading."""

    lines: Sequence[Content]
    margin: Margin = NO_MARGIN

    def rows(self, width: int) -> list[Row]:
        """Return one row per line."""
        first, rest = fit(self.margin.first, width), fit(self.margin.rest, width)
        return [
            Row(line, rest if number else first, rest, self.margin.lead_rest if number else self.margin.lead)
            for number, line in enumerate(self.lines)
        ]


@dataclass(frozen=True, slots=True)
class Gap:
    """An empty line between blocks."""

    margin: Margin = NO_MARGIN

    def rows(self, width: int) -> list[Row]:
        """Return one empty row."""
        rest = fit(self.margin.rest, width)
        return [Row(first=rest, rest=rest, lead=self.margin.lead_rest.rstrip())]


@dataclass(frozen=True, slots=True)
class Rule:
    """A thematic break."""

    margin: Margin = NO_MARGIN

    def rows(self, width: int) -> list[Row]:
        """Return one row, a line across."""
        first = fit(self.margin.first, width)
        line = ("─" * max(width - cells(first), 0), Mark.RULE)
        return [Row(first=(*first, line), lead=self.margin.lead + "---")]


@dataclass(frozen=True, slots=True)
class FenceHead:
    """The thin line above code, with the language and what else the fence says.

    A click on it copies `code`, which is None while the fence is open.
    """

    title: str
    code: str | None
    marker: str
    margin: Margin = NO_MARGIN

    def rows(self, width: int) -> list[Row]:
        """Return one row, and another one if what the fence says does not fit into it."""
        first = fit(self.margin.first, width)
        lead = self.margin.lead + self.marker
        room = max(width - cells(first), 0)
        name = f"── {self.title} " if self.title else ""
        fits = cell_len(name) <= room
        if not fits:
            name = ""
        copy = " copy ──" if self.code and room >= cell_len(name) + 10 else ""
        rule = "─" * (room - cell_len(name) - cell_len(copy))
        line: Parts = (*first, (name + rule + copy, Mark.FENCE))
        if fits:
            return [Row(first=line, lead=lead + self.title, code=self.code)]
        rest = fit(self.margin.rest, width)
        title = Content.styled(self.title, Mark.FENCE)
        return [Row(first=line, copied=False, code=self.code), Row(title, rest, rest, lead)]


@dataclass(frozen=True, slots=True)
class FenceFoot:
    """The thin line below code."""

    closing: str
    margin: Margin = NO_MARGIN

    def rows(self, width: int) -> list[Row]:
        """Return one row."""
        rest = fit(self.margin.rest, width)
        line = ("─" * max(width - cells(rest), 0), Mark.FENCE)
        return [Row(first=(*rest, line), lead=self.margin.lead_rest + self.closing)]


@dataclass(frozen=True, slots=True)
class CodeLines:
    """Lines of code, as many as there are so far. `colour` returns a line by number if `lines` have no colours."""

    lines: Sequence[Content]
    margin: Margin = NO_MARGIN
    colour: Callable[[int], Content] | None = None

    def rows(self, width: int) -> list[Row]:
        """Return one row per line of code."""
        rest = fit(self.margin.rest, width)
        lead = self.margin.lead_rest
        folded = (*rest, *_CONTINUED)
        return [
            Row(
                line,
                rest,
                folded,
                lead,
                Mark.CODE_LINE,
                words=False,
                colour=None if self.colour is None else partial(self.colour, number),
            )
            for number, line in enumerate(self.lines)
        ]
