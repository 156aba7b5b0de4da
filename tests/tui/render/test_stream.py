from __future__ import annotations

import random
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri_tui.render.markdown import markdown
from colibri_tui.render.rows import Layout
from colibri_tui.render.stream import MarkdownStream
from tests.tui.render.drawing import describe, draw, drawn
from tests.tui.render.test_markdown import DOCUMENT

MODULE = '"""A docstring\n\nthat is long.\n"""\n\n\n' + "\n\n".join(
    f'def function_{n}(x: int) -> str:\n    """Doc {n}.\n\n    More.\n    """\n    return f"{{x}}" + str({n})  # note'
    for n in range(30)
)
ANSWER = dedent("""\
    # Title

    A paragraph with **bold**
    and a second line.

    1. one
       - nested

         deep
    2. two

    3. three
    | a | b |
    |---|---|
    | 1 | 2 |
    > quote
    lazy

    ~~~
    tilde ``` inside
    ~~~
    #tag is no heading
    - - -
    * [ ] task
    """)


def pieces_of(text: str, seed: int, longest: int = 7) -> list[str]:
    chance = random.Random(seed)
    pieces = []
    while text:
        count = chance.randint(1, longest)
        pieces.append(text[:count])
        text = text[count:]
    return pieces


def streamed(pieces: list[str], width: int = 40) -> tuple[MarkdownStream, Layout]:
    """Feed the pieces and finish, laying out what is said to have changed, as the widget does."""
    stream, layout = MarkdownStream(), Layout(width)
    for piece in pieces:
        layout.update(stream.blocks, stream.feed(piece))
    layout.update(stream.blocks, stream.finish())
    return stream, layout


def assert_like_the_whole(pieces: list[str], width: int = 40) -> None:
    stream, layout = streamed(pieces, width)
    whole = markdown("".join(pieces))
    assert describe(stream.blocks, width) == describe(whole, width)
    assert [drawn(line) for line in layout.lines] == draw(whole, width)


@given(DOCUMENT, st.integers(0, 1000))
@settings(max_examples=120, deadline=None)
def test_any_document_in_any_pieces_looks_like_the_whole(document: list[str], seed: int) -> None:
    assert_like_the_whole(pieces_of("".join(document), seed))


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_in_pieces_looks_like_the_whole(seed: int) -> None:
    assert_like_the_whole(pieces_of(ANSWER, seed))


@pytest.mark.parametrize("ending", ["\n```\n\nafter", "\n```", "", "\n", "\n``", "\n  "])
def test_long_code_in_pieces_looks_like_the_whole(ending: str) -> None:
    assert_like_the_whole(pieces_of(f"before\n```python\n{MODULE}{ending}", seed=1, longest=30), width=90)


@pytest.mark.parametrize("text", ["a\r\nb\r", "- a\r\n\r\n- b", "```\r\nx\r\n```\r\ny"])
def test_line_ends_may_be_cut_in_two(text: str) -> None:
    assert_like_the_whole(list(text))


def test_the_source_is_the_text_that_was_fed() -> None:
    assert streamed(pieces_of(ANSWER, 3))[0].source == ANSWER


def test_finished_blocks_are_not_made_again() -> None:
    stream = MarkdownStream()
    stream.feed("first\n\nsecond\n\nthird ")
    before = stream.blocks[:]
    first = stream.feed("goes on")
    assert first == 3, "two paragraphs and the gap between them are settled"
    assert all(old is new for old, new in zip(before[:first], stream.blocks[:first], strict=True))


def test_code_is_shown_while_it_arrives() -> None:
    stream = MarkdownStream()
    stream.feed("text\n```python\ndef f(")
    assert draw(stream.blocks)[-1] == "def f("
    assert stream.blocks[-1].rows(40)[0].painted.spans, "and coloured"


def test_a_closing_fence_does_not_flash_as_code() -> None:
    stream = MarkdownStream()
    stream.feed("```\nx\n")
    for backtick in "```":
        stream.feed(backtick)
        assert draw(stream.blocks)[1:] == ["x"]


def test_only_the_last_chunk_of_long_code_changes() -> None:
    stream = MarkdownStream()
    stream.feed(f"```python\n{MODULE}\n")
    first = stream.feed("y = 2")
    assert first == len(stream.blocks) - 1
    assert len(stream.blocks[-1].rows(40)) <= 24


def test_code_that_gives_no_new_start_is_left_plain_until_it_closes() -> None:
    text = "some words in a text\n" * 1000
    stream = MarkdownStream()
    for piece in pieces_of(f'```python\n"""\n{text}', 0, 2000):
        stream.feed(piece)
    assert not stream.blocks[-1].rows(40)[-1].painted.spans
    stream.feed('"""\n```\n')
    assert describe(stream.blocks) == describe(markdown(f'```python\n"""\n{text}"""\n```\n'))


def test_a_code_line_in_a_docstring_is_no_new_start() -> None:
    code = 'x = """\n' + "\n".join(f"for word_{n} in text: return 1" for n in range(40))
    stream = MarkdownStream()
    for piece in pieces_of(f"```python\n{code}", 0, 60):
        stream.feed(piece)
    rows = [row for block in stream.blocks[1:] for row in block.rows(80)]
    assert len({str(row.painted.spans[0].style) for row in rows[1:]}) == 1, "all of it is one string"


def test_a_fence_may_still_become_the_head_of_a_table() -> None:
    assert_like_the_whole(["~~~ | a |\n", "|---|---|\n", "| 1 | 2 |\n"])
