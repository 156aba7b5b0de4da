from __future__ import annotations

import time

from hypothesis import example, given, settings
from hypothesis import strategies as st
from textual.content import Content, Span

from colibri_tui.render.blocks import Prose
from colibri_tui.render.rows import Layout, Row, common_length, wrap

TEXT = st.text(st.sampled_from("ab .,(\u4e16\u754c\u3002\u300c\u0301\U0001f426\u2007-"), max_size=60)


@given(TEXT, TEXT)
def test_texts_begin_alike_up_to_their_first_difference(one: str, other: str) -> None:
    common = common_length(one, other)
    assert one[:common] == other[:common]
    assert one[common : common + 1] != other[common : common + 1] or common == len(one) == len(other)


@given(TEXT, TEXT, TEXT, st.integers(1, 12), st.booleans(), st.sampled_from([(), (("- ", ""),)]))
@example("a「", "。", "", 5, True, (("- ", ""),))
@settings(max_examples=400, deadline=None)
def test_a_row_that_goes_on_is_wrapped_as_if_it_were_new(
    start: str, old_end: str, new_end: str, width: int, words: bool, margin: tuple[tuple[str, str], ...]
) -> None:
    old, new = (Row(Content(start + end), margin, margin, words=words) for end in (old_end, new_end))
    assert wrap(new, 3, width, wrap(old, 3, width)) == wrap(new, 3, width)


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.sampled_from(["bold", "dim"])), max_size=4)


@given(TEXT, TEXT, SPANS, SPANS, st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_lines_that_are_said_to_be_the_same_look_the_same(
    one: str, other: str, spans: list[tuple[int, int, str]], others: list[tuple[int, int, str]], width: int
) -> None:
    before, after = (
        Content(text, [Span(a, min(a + n, len(text)), style) for a, n, style in found if a < len(text)])
        for text, found in ((one, spans), (one + other, others))
    )
    layout = Layout(width)
    layout.update([Prose([before])])
    old = list(layout.lines)
    changed = layout.update([Prose([after])])
    for then, now in zip(old[:changed], layout.lines[:changed], strict=True):
        assert then[1:] == now[1:]
        assert then.row.text[then.start : then.stop].is_same(now.row.text[now.start : now.stop])


def test_a_very_long_paragraph_grows_cheaply() -> None:
    """A model that has lost itself writes on and on without a new line."""
    words = [f"word{n} " for n in range(20_000)]
    layout = Layout(60)
    layout.update([Prose([Content("".join(words))])])
    grown = [Prose([Content("".join(words) + "and more " * n)]) for n in range(1, 11)]
    whole = time.thread_time()
    Layout(60).update(grown[-1:])
    whole = time.thread_time() - whole
    start = time.thread_time()
    for block in grown:
        layout.update([block])
    assert (time.thread_time() - start) / 10 < whole / 3, "it is not wrapped from its beginning"
