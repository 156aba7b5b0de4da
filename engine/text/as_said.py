"""A conversation in the tokens that it was said in.

A model spells its answer in tokens of its own choice, not always in those that a tokenizer makes of the same text.
Where a conversation is rendered anew for the next turn, its ids would then differ from what the model's memory stands
for, and everything from there on would be read again. Equal text keeps the tokens that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Spelling = Callable[[int], str | None]
"""The vocabulary's spelling of an id; None for a control token, which no text equals."""


def as_said(said: Sequence[int], asked: Sequence[int], spelling: Spelling) -> list[int]:
    """`asked`, beginning with as many ids of `said` as spell the same."""
    at = to = 0
    while at < len(said) and to < len(asked):
        step = (1, 1) if said[at] == asked[to] else _same_text(said[at:], asked[to:], spelling)
        if step is None:
            break
        at, to = at + step[0], to + step[1]
    return [*said[:at], *asked[to:]]


def _same_text(said: Sequence[int], asked: Sequence[int], spelling: Spelling) -> tuple[int, int] | None:
    """How many ids of each spell the same, the fewest that do; None if their texts differ or one ends in between."""
    texts, taken, both = ["", ""], [0, 0], (said, asked)
    while True:
        shorter = 0 if len(texts[0]) <= len(texts[1]) else 1
        if taken[shorter] == len(both[shorter]):
            return None
        piece = spelling(both[shorter][taken[shorter]])
        if piece is None:
            return None
        texts[shorter] += piece
        taken[shorter] += 1
        known = min(map(len, texts))
        if texts[0][:known] != texts[1][:known]:
            return None
        if len(texts[0]) == len(texts[1]):
            return taken[0], taken[1]
