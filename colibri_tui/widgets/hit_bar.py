"""Where experts were found: pinned, cached, or read from disk; for this answer, and since the model was loaded.

Prompt and answer are told apart, because reading a prompt shares each expert among many tokens and says little about
the speed of the answer that follows.
"""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from colibri_tui.render.bars import cells, joined, shares
from colibri_tui.render.looks import Looks
from colibri_tui.render.shades import Place
from colibri_tui.render.units import size
from colibri_tui.telemetry import Reads
from engine.events import Hits

TIERS = ((Place.PIN, "pin"), (Place.CACHE, "cache"), (Place.DISK, "disk"))
LABEL = 8
NUMBERS = 13
"""Columns of the three percentages."""
BLOCK = 4
"""Lines about one window of time."""


def _counts(hits: Hits) -> tuple[int, int, int]:
    return hits.pin, hits.cache, hits.disk


def bar_line(label: str, hits: Hits, looks: Looks, width: int) -> Content:
    """Return one bar with its percentages, `width` columns wide."""
    counts = _counts(hits)
    room = width - LABEL - NUMBERS
    if not hits.total:
        return Content.assemble(label.ljust(LABEL), ("nothing yet", "$text-muted"))
    bar = [
        (glyph * count, colour)
        for count, (glyph, colour) in zip(
            cells(counts, max(room, 0)), (looks.bar(place) for place, _ in TIERS), strict=True
        )
    ]
    numbers = "".join(f"{percent:4d}" for percent in shares(counts, 100))
    return Content.assemble(label.ljust(LABEL), *bar, numbers, "%")


def block(title: str, reads: Reads, looks: Looks, width: int) -> list[Content]:
    """Return the lines about one window of time: total first, then answer and prompt apart."""
    heads = Content.assemble(
        *((f"{name:>{columns}}", "$text-muted") for columns, (_, name) in zip((4, 6, 5), TIERS, strict=True))
    )
    heads = Content(" " * max(1, width - len(title) - len(heads) - 1)) + heads
    if not reads.total.total:
        return [Content.assemble((title, "bold"), ("  nothing yet", "$text-muted"))]
    return [
        Content.assemble((title, "bold"), heads),
        bar_line("total", reads.total, looks, width),
        bar_line(" answer", reads.decode, looks, width),
        bar_line(" prompt", reads.prefill, looks, width),
    ]


def read_line(turn: Reads, ever: Reads, width: int) -> Content:
    """Return what was read from disk, as much of it as fits."""
    parts = [f"{size(turn.bytes_read)} this answer", f"{size(ever.bytes_read)} in all"]
    if turn.per_token is not None:
        parts.insert(0, f"{size(turn.per_token)} a token")
    return Content.assemble("read".ljust(LABEL), (joined(parts, width - LABEL, ", "), "$text-muted"))


def one_line(hits: Hits, looks: Looks) -> Content:
    """Return the shares as words, for narrow windows."""
    if not hits.total:
        return Content.styled("no expert used yet", "$text-muted")
    percent = shares(_counts(hits), 100)
    words: list[tuple[str, str]] = [(f"hit {percent[0] + percent[1]}%", "bold")]
    for (place, name), share in zip(TIERS, percent, strict=True):
        glyph, colour = looks.bar(place)
        words += [(f" {glyph}", colour), (f" {name} {share}", "$text-muted")]
    return Content.assemble(*words)


class HitBar(Static):
    """The shares in one line of words."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "HitBar { height: 1; width: 1fr; }"

    def __init__(self, looks: Looks, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._looks = looks
        self._reads: tuple[Reads, Reads] | None = None

    @property
    def looks(self) -> Looks:
        """Colours, glyphs and depth."""
        return self._looks

    @looks.setter
    def looks(self, looks: Looks) -> None:
        self._looks = looks
        self._draw()

    def show(self, turn: Reads, ever: Reads) -> None:
        """Draw figures of the running or last answer, and of everything since the model was loaded."""
        if (turn, ever) != self._reads:
            self._reads = turn, ever
            self._draw()

    def clear(self) -> None:
        """Forget the model."""
        self._reads = None
        self._draw()

    def _draw(self) -> None:
        """Draw again; the style sheet gives the height, so the screen's layout stays as it is."""
        if self._reads is None:
            self.update("", layout=False)
            return
        turn, ever = self._reads
        self.update(one_line(turn.total if turn.total.total else ever.total, self._looks), layout=False)
