"""Looking for words in the messages that are on screen, or can be scrolled to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from colibri_tui.widgets.message_log import MessageLog
from colibri_tui.widgets.row_view import Match, RowView


class Found(NamedTuple):
    """How a search stands: place number `number` (from 1) of `total`; 0 of 0 when the words are nowhere."""

    number: int
    total: int


class Finder:
    """Marks the words in all views of a log, and goes from one to the next."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._words: re.Pattern[str] | None = None
        self._here: tuple[RowView, Match] | None = None

    @property
    def words(self) -> re.Pattern[str] | None:
        """What is looked for."""
        return self._words

    def look_for(self, text: str) -> Found:
        """Mark some words, in whatever case, and go to the last place that has them; '' marks nothing."""
        self._words = re.compile(re.escape(text), re.IGNORECASE) if text.strip() else None
        self._here = None
        return self.go(-1)

    def go(self, step: int) -> Found:
        """Go to the next place (1) or the one before (-1), round the ends; what came in meanwhile counts."""
        views = self._views
        words = self._words
        if words is None:
            for view in views:
                view.find(None)
            return Found(0, 0)
        places = [(view, match) for view in views for match in view.matches(words)]
        number = self._next(places, step) if places else -1
        self._here = places[number] if places else None
        for view in views:
            view.find(words, self._here[1] if self._here is not None and self._here[0] is view else None)
        if self._here is not None:
            self._show(*self._here)
        return Found(number + 1, len(places))

    def mark(self, views: Sequence[RowView]) -> None:
        """Mark the words in views that are new."""
        for view in views:
            view.find(self._words)

    @property
    def _views(self) -> list[RowView]:
        return list(self._log.query_children(RowView))

    def _next(self, places: Sequence[tuple[RowView, Match]], step: int) -> int:
        if self._here in places:
            return (places.index(self._here) + step) % len(places)
        return len(places) - 1 if step < 0 else 0

    def _show(self, view: RowView, match: Match) -> None:
        """Scroll so that the place stands in the middle, unless it is in sight already."""
        log = self._log
        y = view.virtual_region.y + view.line_of((match.row, match.start))
        if not log.scroll_y <= y < log.scroll_y + log.size.height:
            log.scroll_to(y=max(y - log.size.height // 2, 0), animate=False, immediate=True)
