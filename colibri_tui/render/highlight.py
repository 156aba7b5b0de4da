"""Syntax highlighting: source code -> one `Content` per line, with Pygments."""

from __future__ import annotations

from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from textual.content import Content, Span

from colibri_tui.render.clean import clean
from colibri_tui.render.marks import Mark

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]
    from pygments.token import _TokenType  # type: ignore[import-untyped]

MAX_HIGHLIGHT: Final = 20_000
"""Characters of one block of code that are coloured (about 50 ms of work); what follows is shown plain."""


@cache
def _languages() -> frozenset[str]:
    """Return the names that Pygments knows by itself: asking it for others makes it search all installed packages."""
    from pygments.lexers import get_all_lexers  # type: ignore[import-untyped]

    return frozenset(alias for _name, aliases, *_rest in get_all_lexers(plugins=False) for alias in aliases)


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language) if language in _languages() else None


def prepare() -> None:
    """Load Pygments and the commonest lexers, about 0.2 s of work, so that the first code need not wait for it."""
    for language in ("python", "bash", "javascript", "json"):
        highlight("x", language)


@cache
def _marks() -> dict[_TokenType, Mark]:
    from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String

    return {
        Comment: Mark.COMMENT,
        Comment.Preproc: Mark.KEYWORD,
        Generic.Deleted: Mark.DELETED,
        Generic.Error: Mark.DELETED,
        Generic.Heading: Mark.SECTION,
        Generic.Inserted: Mark.INSERTED,
        Generic.Prompt: Mark.COMMENT,
        Generic.Subheading: Mark.SECTION,
        Keyword: Mark.KEYWORD,
        Keyword.Constant: Mark.CONSTANT,
        Keyword.Type: Mark.TYPE,
        Name.Attribute: Mark.FUNCTION,
        Name.Builtin: Mark.BUILTIN,
        Name.Class: Mark.TYPE,
        Name.Constant: Mark.CONSTANT,
        Name.Decorator: Mark.FUNCTION,
        Name.Exception: Mark.TYPE,
        Name.Function: Mark.FUNCTION,
        Name.Tag: Mark.KEYWORD,
        Number: Mark.NUMBER,
        Operator: Mark.OPERATOR,
        Operator.Word: Mark.KEYWORD,
        String: Mark.STRING,
    }


@cache
def _mark(token_type: _TokenType) -> Mark | None:
    """Return the style of a token: its own, or that of the nearest more general kind."""
    kind: _TokenType | None = token_type
    while kind is not None:
        if kind in _marks():
            return _marks()[kind]
        kind = kind.parent
    return None


class Highlighted:
    """Code whose colours are found when they are first asked for: most code of a long conversation is never seen."""

    def __init__(self, code: str, info: str) -> None:
        self._code = code
        self._info = info
        self.plain = _plain_lines(clean(code))
        """The lines without colours."""

    @cached_property
    def _lines(self) -> list[Content]:
        return highlight(self._code, self._info)

    def line(self, number: int) -> Content:
        """Return a line with its colours."""
        return self._lines[number]


def highlight(code: str, info: str) -> list[Content]:
    """Return the lines of `code`, coloured if Pygments knows the language. Tabs become spaces.

    info: what a fence says behind its marker; its first word names the language.
    """
    code = clean(code)
    language = info.split(maxsplit=1)[:1]
    lexer = _lexer(language[0].lower()) if language else None
    if lexer is None:
        return _plain_lines(code)
    coloured, rest = code, ""
    if len(code) > MAX_HIGHLIGHT:
        stop = code.rfind("\n", 0, MAX_HIGHLIGHT) + 1
        coloured, rest = code[:stop], code[stop:]
    lines: list[Content] = []
    text: list[str] = []
    spans: list[Span] = []
    length = 0
    tokens = [(kind, value) for _start, kind, value in lexer.get_tokens_unprocessed(coloured)]
    if "".join(value for _kind, value in tokens) != coloured:
        return _plain_lines(code)  # a lexer that drops or adds characters must not change what is shown
    for kind, value in tokens:
        mark = _mark(kind)
        first = True
        for piece in value.split("\n"):
            if not first:
                lines.append(Content("".join(text), spans, strip_control_codes=False))
                text, spans, length = [], [], 0
            first = False
            if piece:
                text.append(piece)
                if mark is not None:
                    start = length
                    if spans and spans[-1].end == start and spans[-1].style == mark:
                        start = spans.pop().start
                    spans.append(Span(start, length + len(piece), mark))
                length += len(piece)
    last = Content("".join(text), spans, strip_control_codes=False)
    if rest:
        return [*lines, *_plain_lines(rest)]
    return [*lines, last]


def _plain_lines(code: str) -> list[Content]:
    return [Content(line, strip_control_codes=False) for line in code.split("\n")]
