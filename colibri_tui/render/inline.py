"""The inside of a paragraph: emphasis, code, links, line breaks -> `Content`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.content import Content, Span
from textual.style import Style

from colibri_tui.render.clean import clean
from colibri_tui.render.marks import Mark

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_INLINE: Final = 20_000
"""Longer paragraphs (characters) are shown as they are: emphasis in a wall of text is not worth a frozen screen."""

_URL: Final = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,;:!?)\]}]")
_LINKABLE: Final = re.compile(r"(?:https?://|mailto:)[!-~]+")
_OPEN: Final = {"strong_open": Mark.STRONG, "em_open": Mark.EMPHASIS, "s_open": Mark.STRIKE, "link_open": Mark.LINK}
_CLOSE: Final = frozenset({"strong_close", "em_close", "s_close", "link_close"})


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


def inline(source: str) -> list[Content]:
    """Parse a paragraph's source and return its lines.

    A newline in the source is a newline here: models mean it, whatever CommonMark says. Links show their
    target, HTML is text.
    """
    if len(source) > MAX_INLINE:
        return plain(source)
    (token,) = _parser().parseInline(source)
    return _Inline().build(token.children or []).split("\n", allow_blank=True)


def plain(source: str) -> list[Content]:
    """Return the lines of text that is shown as it is."""
    return [Content(line, strip_control_codes=False) for line in clean(source).split("\n")]


class _Opened(NamedTuple):
    """An emphasis or link whose end has not come yet."""

    mark: Mark
    token: Token
    span: int  # place among the spans
    start: int  # in the text
    part: int  # place among the parts of the text


class _Inline:
    """Collects text and the spans over it."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._length = 0
        self._spans: list[Span] = []
        self._open: list[_Opened] = []

    def build(self, tokens: Sequence[Token]) -> Content:
        for token in tokens:
            kind = token.type
            if kind == "text":
                self._add_text(token.content)
            elif kind == "code_inline":
                self._styled(token.content, Mark.CODE)
            elif kind in {"softbreak", "hardbreak"}:
                self._add("\n")
            elif kind in _OPEN:
                # The span's place is taken now, so that outer spans come before, and yield to, inner ones.
                self._open.append(_Opened(_OPEN[kind], token, len(self._spans), self._length, len(self._text)))
                self._spans.append(Span(self._length, self._length, ""))
            elif kind in _CLOSE:
                self._close()
            elif kind == "image":
                self._image(token)
            else:
                self._add(token.content)
        spans = [span for span in self._spans if span.end > span.start]
        return Content("".join(self._text), spans, strip_control_codes=False)

    def _add(self, text: str) -> None:
        text = clean(text)  # entities (&#x202e;) bring back what the source was cleaned of
        self._text.append(text)
        self._length += len(text)

    def _styled(self, text: str, style: str | Style) -> None:
        start = self._length
        self._add(text)
        self._spans.append(Span(start, self._length, style))

    def _add_text(self, text: str) -> None:
        position = 0
        if "://" in text and not any(opened.mark is Mark.LINK for opened in self._open):
            for match in _URL.finditer(text):
                self._add(text[position : match.start()])
                start = self._length
                self._styled(match.group(), Mark.LINK)
                self._hyperlink(start, match.group())
                position = match.end()
        self._add(text[position:])

    def _close(self) -> None:
        mark, token, span, start, part = self._open.pop()
        self._spans[span] = Span(start, self._length, mark)
        if mark is Mark.LINK:
            target = str(token.attrs.get("href", ""))
            self._hyperlink(start, target)
            if token.markup != "autolink":
                self._target(target, str(token.attrs.get("title", "")), "".join(self._text[part:]))

    def _image(self, token: Token) -> None:
        self._styled("image: ", Mark.TARGET)
        self._add(token.content)
        self._target(str(token.attrs.get("src", "")), str(token.attrs.get("title", "")), token.content)

    def _hyperlink(self, start: int, target: str) -> None:
        """Let terminals that know OSC 8 open the target; only plain web and mail addresses are passed on."""
        if _LINKABLE.fullmatch(target):
            self._spans.append(Span(start, self._length, Style(link=target)))

    def _target(self, target: str, title: str, shown: str) -> None:
        """Show where a link goes, unless its text says so already."""
        note = " ".join(part for part in (target if target != shown else "", f"“{title}”" if title else "") if part)
        if note:
            self._styled(f" ({note})", Mark.TARGET)
