"""Text that was said in other tokens keeps them; anything else is as it was asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.text.as_said import as_said

PIECES = ["a", "b", "c", "ab", "bc", "abc", "ca"]
CONTROL = len(PIECES)

texts = st.lists(st.integers(0, CONTROL), max_size=12)


def spelling(number: int) -> str | None:
    return None if number == CONTROL else PIECES[number]


def spelt(ids: list[int]) -> list[str]:
    """Text between control tokens."""
    return "".join("|" if number == CONTROL else PIECES[number] for number in ids).split("|")


def ids(*pieces: str) -> list[int]:
    return [CONTROL if piece == "|" else PIECES.index(piece) for piece in pieces]


def test_other_tokens_of_the_same_text_are_kept() -> None:
    said = ids("a", "bc", "|", "ab", "c", "|")
    assert as_said(said, ids("abc", "|", "abc", "|", "a"), spelling) == [*said, *ids("a")]


def test_what_goes_on_within_a_token_is_asked_anew() -> None:
    assert as_said(ids("c", "a"), ids("c", "abc"), spelling) == ids("c", "abc")


def test_a_control_token_is_no_text() -> None:
    assert as_said(ids("a", "|"), ids("a", "b"), spelling) == ids("a", "b")


@given(texts, texts)
def test_the_text_is_the_one_asked_for(said: list[int], asked: list[int]) -> None:
    assert spelt(as_said(said, asked, spelling)) == spelt(asked)


@given(texts, texts)
def test_what_was_said_so_comes_whole(said: list[int], more: list[int]) -> None:
    assert as_said(said, [*said, *more], spelling) == [*said, *more]


@given(texts, texts, st.data())
def test_every_way_to_say_it_is_kept(said: list[int], more: list[int], data: st.DataObject) -> None:
    """Whatever tokens the same text is asked in, if a control token follows, all that was said is kept."""
    ways = {"abc": [["abc"], ["a", "bc"], ["ab", "c"], ["a", "b", "c"]], "ca": [["ca"], ["c", "a"]]}
    asked: list[int] = []
    for number in said:
        piece = "|" if number == CONTROL else PIECES[number]
        asked += ids(*data.draw(st.sampled_from(ways.get(piece, [[piece]]))))
    assert as_said(said, [*asked, CONTROL, *more], spelling)[: len(said)] == said
