"""Names of the styles that rendered text refers to.

Rendering knows names only; the transcript's style sheet gives them colours, so themes, sixteen colours and
NO_COLOR need no code here. Every mark is a component class of the transcript.
"""

from __future__ import annotations

from enum import StrEnum


class Mark(StrEnum):
    """What a span of text is."""

    STRONG = "md--strong"
    EMPHASIS = "md--emphasis"
    STRIKE = "md--strike"
    CODE = "md--code"
    LINK = "md--link"
    TARGET = "md--target"
    H1 = "md--h1"
    H2 = "md--h2"
    H3 = "md--h3"
    H4 = "md--h4"
    BULLET = "md--bullet"
    QUOTE = "md--quote"
    RULE = "md--rule"
    TABLE_HEAD = "md--table-head"
    FENCE = "md--fence"
    CODE_LINE = "md--code-line"
    FOLD = "md--fold"

    COMMENT = "code--comment"
    KEYWORD = "code--keyword"
    TYPE = "code--type"
    STRING = "code--string"
    NUMBER = "code--number"
    FUNCTION = "code--function"
    BUILTIN = "code--builtin"
    CONSTANT = "code--constant"
    OPERATOR = "code--operator"
    INSERTED = "code--inserted"
    DELETED = "code--deleted"
    SECTION = "code--section"

    USER = "message--user"
    PROMPT = "message--prompt"
    REASONING = "message--reasoning"
    NOTE = "message--note"
    INFORMATION = "message--information"
    WARNING = "message--warning"
    ERROR = "message--error"
    ACTION = "message--action"
    CURSOR = "message--cursor"
    PROGRESS = "message--progress"
    BAR_DONE = "message--bar-done"
    BAR_REST = "message--bar-rest"
    CHOSEN = "message--chosen"
    FOUND = "message--found"
    FOUND_HERE = "message--found-here"
