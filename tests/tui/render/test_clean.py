from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.render.clean import StreamCleaner, clean


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain\ntext", "plain\ntext"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("bell\x07 nul\x00 del\x7f", "bell␇ nul␀ del␡"),
        ("\x9b31m \x85", "\ufffd31m \ufffd"),
        ("\u202egnp.exe\u202c \u2066x\u2069", "\ufffdgnp.exe\ufffd \ufffdx\ufffd"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("a\tb\n\tc", "a   b\n    c"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text: str, wanted: str) -> None:
    assert clean(text) == wanted


def test_tabs_can_be_kept() -> None:
    assert clean("a\tb", tab_size=None) == "a\tb"


@given(st.text(st.characters(), max_size=60))
def test_nothing_but_newlines_controls_a_terminal(text: str) -> None:
    cleaned = clean(text)
    assert not [c for c in cleaned if unicodedata.category(c) in {"Cc", "Cs"} and c != "\n"]
    cleaned.encode()
    assert clean(cleaned) == cleaned


@given(st.lists(st.text(st.sampled_from("a\r\n\t\x1b"), max_size=4), max_size=8))
def test_pieces_are_cleaned_like_the_whole(pieces: list[str]) -> None:
    cleaner = StreamCleaner()
    got = "".join(cleaner.feed(piece) for piece in pieces) + cleaner.finish()
    assert got == clean("".join(pieces), tab_size=None)
