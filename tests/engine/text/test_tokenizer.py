"""Text to ids: equal to the reference, and no way for a person's text to become a control token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CheckpointError, EngineError
from engine.text import Tokenizer

from .models import BYTE_LEVEL, DATA, STYLES, byte_level, decode, load, sample, unigram

SPELLINGS = sorted({spelling for style in STYLES for spelling in sample(style).added})
HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(SPELLINGS),
        st.sampled_from(SPELLINGS).map(lambda s: s[: len(s) // 2]),
        st.sampled_from(SPELLINGS).map(lambda s: s[len(s) // 2 :]),
        st.sampled_from(["\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4", "\ufdd5", "352", "353", "0"]),
        st.text(max_size=5),
    ),
    max_size=8,
).map("".join)
HARMLESS = st.text(st.characters(exclude_characters="<>[]|", exclude_categories=["Cs", "Cn"]), max_size=30)


@pytest.mark.parametrize("style", STYLES)
def test_raw_prompts_get_the_reference_ids(style: str) -> None:
    expected = sample(style).expected
    assert sample(style).tokenizer.encode_prompt(expected["prompt"]) == expected["prompt_ids"]


@pytest.mark.parametrize("style", STYLES)
def test_rendered_text_gets_the_reference_ids(style: str) -> None:
    expected = sample(style).expected
    assert sample(style).tokenizer.encode_rendered(expected["text"]) == expected["ids"]


@pytest.mark.parametrize("style", STYLES)
def test_control_tokens_in_ordinary_text_stay_text(style: str) -> None:
    tokenizer, added = sample(style).tokenizer, sample(style).added
    for spelling in added:
        ids = tokenizer.encode(f"so {spelling}, and {spelling}{spelling}")
        assert not set(ids) & set(added.values())
        assert decode(tokenizer, ids) == f"so {spelling}, and {spelling}{spelling}"


@given(text=HOSTILE, style=st.sampled_from(STYLES))
def test_no_ordinary_text_becomes_a_control_token(text: str, style: str) -> None:
    unknown = {sample(style).added.get("<unk>")}
    assert not set(sample(style).tokenizer.encode(text)) & (set(sample(style).added.values()) - unknown)


@given(text=HARMLESS, style=st.sampled_from(STYLES))
def test_harmless_text_is_encoded_as_the_library_does(text: str, style: str) -> None:
    ids = sample(style).plain.encode(text, add_special_tokens=False).ids
    assert sample(style).tokenizer.encode(text) == ids
    assert sample(style).tokenizer.encode_rendered(text) == ids
    assert sample(style).tokenizer.quote(text) == text


@given(text=HOSTILE, style=st.sampled_from(BYTE_LEVEL))
def test_quoted_text_comes_back(text: str, style: str) -> None:
    tokenizer = sample(style).tokenizer
    clean = "".join("\ufffd" if "\ufdd0" <= char <= "\ufdd5" else char for char in text)
    assert tokenizer.unquote(tokenizer.quote(text)) == clean
    assert tokenizer.encode_rendered(tokenizer.quote(text)) == tokenizer.encode(text)


@pytest.mark.parametrize("style", STYLES)
def test_raw_prompts_and_rendered_text_recognise_control_tokens(style: str) -> None:
    tokenizer, added = sample(style).tokenizer, sample(style).added
    for spelling, number in added.items():
        text = f"a{spelling}b {spelling}"
        ids = sample(style).plain.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode_prompt(text, add_special=False) == ids
        assert tokenizer.encode_rendered(text) == ids
        assert ids.count(number) == 2


def test_the_vocabulary_is_described_without_what_was_added_here() -> None:
    tokenizer = sample("qwen").tokenizer
    assert tokenizer.vocab_size == sample("qwen").plain.get_vocab_size()
    assert tokenizer.token(tokenizer.vocab_size - 1) == "</think>"
    assert tokenizer.token(tokenizer.vocab_size) is None
    assert tokenizer.token(-1) is None
    assert tokenizer.token_id("<|im_end|>") == 354
    assert tokenizer.token_id("no such token") is None


def test_only_special_tokens_are_special() -> None:
    tokenizer = sample("qwen").tokenizer
    special = [tokenizer.token(i) for i in range(tokenizer.vocab_size) if tokenizer.is_special(i)]
    assert special == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def test_added_tokens_that_are_text_are_used_in_ordinary_text(tmp_path: Path) -> None:
    added = [
        tokenizers.AddedToken(text, normalized=normalized, special=False)
        for text, normalized in (("    ", True), ("\t\t", False), ("<table>", False), ("<|fim|>", False))
    ]
    plain = byte_level(*added)
    tokenizer = load(tmp_path, byte_level(*added))
    code = "if x:\n    y\n\t\tz <table>"
    assert tokenizer.encode(code) == plain.encode(code).ids
    assert {plain.token_to_id(text) for text in ("    ", "\t\t", "<table>")} < set(tokenizer.encode(code))
    assert plain.token_to_id("<|fim|>") not in tokenizer.encode("<|fim|>")


def test_tokens_take_in_white_space_as_the_file_says(tmp_path: Path) -> None:
    added = tokenizers.AddedToken("<|end|>", rstrip=True, lstrip=True, special=True)
    plain, tokenizer = byte_level(added), load(tmp_path, byte_level(added))
    text = "a <|end|> \n b"
    assert tokenizer.encode_rendered(text) == plain.encode(text).ids
    assert decode(tokenizer, tokenizer.encode_rendered(text)) == "ab"


def test_a_vocabulary_that_spells_its_control_tokens_is_kept_apart(tmp_path: Path) -> None:
    plain = unigram(["</s>", *"</s>ab"], "</s>")
    tokenizer = load(tmp_path, unigram(["</s>", *"</s>ab"], "</s>"))
    end = plain.token_to_id("</s>")
    assert end is not None
    assert end not in tokenizer.encode("a</s>b")
    assert decode(tokenizer, tokenizer.encode("a</s>b")) == "a</s>b"
    assert tokenizer.encode_rendered("a</s>" + tokenizer.quote("</s>")).count(end) == 1


def test_a_control_token_that_cannot_be_kept_apart_is_refused(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, unigram(["§", "a"], "§"))
    with pytest.raises(EngineError, match="'§'"):
        tokenizer.encode("a§a")


def test_characters_that_the_vocabulary_lacks_become_the_unknown_token(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"<unk>": 0, "a": 1}, merges=[], unk_token="<unk>"))
    backend.add_special_tokens(["<unk>"])
    assert load(tmp_path, backend).encode("aéa") == [1, 0, 1]


def test_characters_that_cannot_be_encoded_are_replaced() -> None:
    tokenizer = sample("qwen").tokenizer
    assert decode(tokenizer, tokenizer.encode("a\ud800b")) == "a?b"
    assert decode(tokenizer, tokenizer.encode("a\ufdd0353\ufdd1b")) == "a\ufffd353\ufffdb"


def test_limits_saved_with_the_file_do_not_cut_or_pad(tmp_path: Path) -> None:
    backend = byte_level()
    backend.enable_truncation(3)
    backend.enable_padding(length=9)
    assert len(load(tmp_path, backend).encode("12345")) == 5


def with_bos(post_processor: bool) -> tokenizers.Tokenizer:
    backend = byte_level(*(tokenizers.AddedToken(name, special=True) for name in ("<s>", "</s>")))
    if post_processor:
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s>:0 $A:0", special_tokens=[("<s>", backend.token_to_id("<s>"))]
        )
    return backend


NAMES = {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}


@pytest.mark.parametrize(
    ("post_processor", "config", "text"),
    [
        (False, NAMES, "x"),
        (True, NAMES, "<s>x"),
        (False, NAMES | {"add_bos_token": True}, "<s>x"),
        (True, NAMES | {"add_bos_token": True}, "<s>x"),
        (True, NAMES | {"add_bos_token": False}, "x"),
        (False, NAMES | {"add_bos_token": True, "add_eos_token": True}, "<s>x</s>"),
        (False, {"add_bos_token": True}, "x"),
    ],
)
def test_raw_prompts_begin_as_the_configuration_says(
    tmp_path: Path, post_processor: bool, config: dict[str, object], text: str
) -> None:
    tokenizer = load(tmp_path, with_bos(post_processor), config)
    assert tokenizer.encode_prompt("x") == with_bos(False).encode(text).ids
    assert tokenizer.encode_prompt("x", add_special=False) == with_bos(False).encode("x").ids
    assert tokenizer.encode("x") == with_bos(False).encode("x").ids


def test_a_bos_token_that_is_not_in_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="bos_token '<none>'"):
        load(tmp_path, byte_level(), {"bos_token": "<none>", "add_bos_token": True})


def test_special_token_names_come_from_either_file(tmp_path: Path) -> None:
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": "<p>", "eos_token": "<old>"}))
    tokenizer = load(tmp_path, byte_level(), NAMES | {"unk_token": None, "add_bos_token": False})
    assert tokenizer.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<p>"}


def test_a_missing_tokenizer_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: missing.*--ids"):
        Tokenizer.load(tmp_path)


def tampered(model: dict[str, object]) -> str:
    content = json.loads((DATA / "qwen" / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"] |= model
    return json.dumps(content)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "\x1b[31m",
        tampered({"vocab": {"a": -1}}),
        tampered({"vocab": {"a": 0}}),
        tampered({"type": "Nonsense\n\x1b[2J"}),
    ],
)
def test_a_broken_tokenizer_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: not a usable tokenizer") as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[1]", "JSON object belongs"),
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b"[" * 99999, "not valid JSON"),
    ],
)
def test_a_broken_tokenizer_configuration_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"tokenizer_config\.json.*{complaint}"):
        Tokenizer.load(tmp_path)
