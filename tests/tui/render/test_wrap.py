from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from colibri_tui.render.wrap import fold_cuts, shorten, word_cuts

TEXT = st.text(
    st.sampled_from("ab cd ,.()中文字，。（）ー é🚀👩‍🔬\ufe0f\u0301⚠ ") | st.characters(categories=["L", "P", "So"]),
    max_size=80,
)


def parts(text: str, cuts: list[int]) -> list[str]:
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("one two three", 20, ["one two three"]),
        ("one two three", 8, ["one two ", "three"]),
        ("one  two", 4, ["one  ", "two"]),
        ("a longwordindeed b", 6, ["a ", "longwo", "rdinde", "ed b"]),
        ("  indented text", 10, ["  indented ", "text"]),
        ("中文字符测试", 7, ["中文字", "符测试"]),
        ("试试，好", 4, ["试", "试，", "好"]),
        ("see（中文）now", 5, ["see", "（中", "文）", "now"]),
        ("no\u00a0break here", 9, ["no\u00a0break ", "here"]),
    ],
)
def test_lines_break_where_a_reader_expects(text: str, width: int, wanted: list[str]) -> None:
    assert parts(text, word_cuts(text, width)) == wanted


@given(TEXT, st.integers(2, 30))
def test_no_line_is_wider_than_the_width(text: str, width: int) -> None:
    for cuts in (word_cuts(text, width), fold_cuts(text, width)):
        lines = parts(text, cuts)
        assert "".join(lines) == text
        assert all(lines[:-1])
        assert all(cell_len(line.rstrip()) <= width for line in lines)


@given(TEXT, st.integers(0, 30))
def test_shortened_text_fits_and_says_so(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cell_len(short) <= width
    assert short == text or not short or (short.endswith("…") and text.startswith(short[:-1]))


def test_an_emoji_sequence_is_never_cut() -> None:
    family = "👩‍👩‍👧"
    assert parts(family * 3, fold_cuts(family * 3, 3)) == [family] * 3
