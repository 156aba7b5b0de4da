"""Ids to text one by one: the same text as all at once, nothing shown too early, nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders

from engine.errors import UnsupportedModelError
from engine.text import IncrementalDecoder, Tokenizer

from .models import BYTE_LEVEL, STYLES, byte_level, decode, load, sample

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=40)


def ids_of(style: str) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, sample(style).tokenizer.vocab_size - 1), max_size=40)


@given(data=st.data(), style=st.sampled_from(BYTE_LEVEL))
def test_pushed_text_equals_decoding_at_once(data: st.DataObject, style: str) -> None:
    ids = data.draw(ids_of(style))
    assert decode(sample(style).tokenizer, ids) == sample(style).plain.decode(ids, skip_special_tokens=True)


@given(text=TEXT)
def test_sentencepiece_text_equals_decoding_at_once(text: str) -> None:
    tokenizer, plain = sample("sentencepiece").tokenizer, sample("sentencepiece").plain
    ids = tokenizer.encode(text)
    assert decode(tokenizer, ids) == plain.decode(ids) == text.replace("▁", " ")


@given(data=st.data())
def test_sentencepiece_bytes_are_shown_when_a_character_is_complete(data: st.DataObject) -> None:
    """The library blanks a whole run of bytes if one of them is wrong, which nobody can know while it streams."""
    tokenizer, plain = sample("sentencepiece").tokenizer, sample("sentencepiece").plain
    ids = data.draw(ids_of("sentencepiece"))
    ours, theirs = decode(tokenizer, ids), plain.decode(ids, skip_special_tokens=True)
    assert ours == theirs or "\ufffd" in theirs


@given(text=TEXT, style=st.sampled_from(STYLES))
def test_what_is_pushed_is_never_taken_back(text: str, style: str) -> None:
    tokenizer = sample(style).tokenizer
    ids = tokenizer.encode(text)
    whole = decode(tokenizer, ids)
    decoder = IncrementalDecoder(tokenizer)
    shown = ""
    for number in ids:
        shown += decoder.push(number)
        assert whole.startswith(shown)
    assert decoder.flush() == ""
    assert shown == whole


def test_an_unfinished_character_is_held_back_and_marked_at_the_end() -> None:
    tokenizer = sample("qwen").tokenizer
    ids = tokenizer.encode("é")
    assert len(ids) == 2
    decoder = IncrementalDecoder(tokenizer)
    assert [decoder.push(ids[0]), decoder.push(ids[1])] == ["", "é"]
    decoder = IncrementalDecoder(tokenizer)
    assert [decoder.push(ids[0]), decoder.flush(), decoder.flush()] == ["", "\ufffd", ""]
    assert decode(tokenizer, [ids[0], *tokenizer.encode("x")]) == "\ufffdx"


def test_special_and_unknown_ids_have_no_text() -> None:
    tokenizer = sample("qwen").tokenizer
    decoder = IncrementalDecoder(tokenizer)
    end = tokenizer.token_id("<|im_end|>")
    think = tokenizer.token_id("<think>")
    assert end is not None
    assert think is not None
    assert [decoder.push(i) for i in (end, tokenizer.vocab_size, 10**9, -1)] == ["", "", "", ""]
    assert decoder.push(think) == "<think>"


def test_the_first_word_has_no_space_before_it_and_the_next_has_one() -> None:
    tokenizer = sample("sentencepiece").tokenizer
    a, b = (tokenizer.token_id(piece) for piece in ("▁experts", "▁the"))
    assert a is not None
    assert b is not None
    assert decode(tokenizer, [a, b]) == "experts the"
    assert decode(tokenizer, [0, 1, a, b]) == "experts the"  # control tokens before it do not count
    assert decode(tokenizer, [a, b], continues=True) == " experts the"


@pytest.mark.parametrize(
    ("pieces", "text", "continued"),
    [
        (["▁a", "▁b"], "a b", " a b"),
        (["▁", "▁b"], " b", "  b"),
        (["a▁b"], "ab", "a b"),
    ],
)
def test_metaspace(tmp_path: Path, pieces: list[str], text: str, continued: str) -> None:
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=pieces[0]))
    backend.decoder = decoders.Metaspace()
    ids = list(vocabulary.values())
    assert backend.decode(ids) == text
    tokenizer = load(tmp_path, backend)
    assert decode(tokenizer, ids) == text
    assert decode(tokenizer, ids, continues=True) == continued


def test_metaspace_that_never_prepends_keeps_the_first_space(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"▁a": 0}, unk_token="▁a"))
    backend.decoder = decoders.Metaspace(prepend_scheme="never")
    assert decode(load(tmp_path, backend), [0]) == backend.decode([0]) == " a"


def test_added_tokens_outside_the_byte_alphabet_mean_themselves(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, byte_level(tokenizers.AddedToken("<｜x｜>"), tokenizers.AddedToken("  ")))
    ids = [tokenizer.vocab_size - 2, tokenizer.vocab_size - 1]
    assert decode(tokenizer, ids) == "<｜x｜>  "


@pytest.mark.parametrize(
    "rule",
    [
        decoders.WordPiece(),
        decoders.CTC(),
        decoders.Strip(" ", 1, 0),
        decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 1)]),
        decoders.Replace(tokenizers.Regex("a+"), " "),
    ],
)
def test_an_unknown_rule_is_refused_by_name(tmp_path: Path, rule: Any) -> None:
    backend = byte_level()
    backend.decoder = rule
    tokenizer = load(tmp_path, backend)
    with pytest.raises(UnsupportedModelError, match=r"tokenizer\.json: decoder step '[A-Z]"):
        IncrementalDecoder(tokenizer)


def test_no_rule_is_refused(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(UnsupportedModelError, match="decoder step 'none'"):
        IncrementalDecoder(tokenizer)


class CountingTokenizer:
    """Stands in for a tokenizer and counts what it is asked."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.decoder, self.origin, self.is_special = tokenizer.decoder, tokenizer.origin, tokenizer.is_special
        self._token = tokenizer.token
        self.asked = 0

    def token(self, number: int) -> str | None:
        self.asked += 1
        return self._token(number)


def test_a_token_costs_the_same_wherever_it_stands() -> None:
    counting: Any = CountingTokenizer(sample("qwen").tokenizer)
    decoder = IncrementalDecoder(counting)
    for number in range(300):
        decoder.push(number)
    assert counting.asked == 300
