"""Tokenizers out of GGUF metadata: the ids of the tokenizer.json they were made from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.text.gguf import load_gguf

from .models import DATA, STYLES, decode, sample

PRE = {"deepseek": "deepseek-v3", "glm": "glm4", "o200k": "gpt-4o", "qwen": "qwen2", "sentencepiece": "default"}
"""What the converter calls how each style cuts text."""

TEXTS = (
    "To stream weights: 17 routers, it's 3,5 MB.\n\n  Größe naïve 日本語 한국어 \t🙂?!",
    " a",
    "",
    "x = [[1]] // {y}\r\n",
)


def metadata(style: str) -> dict[str, Any]:
    """What the converter makes of a folder's tokenizer."""
    whole = json.loads((DATA / style / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((DATA / style / "tokenizer_config.json").read_text(encoding="utf-8"))
    vocab, merges = dict(whole["model"]["vocab"]), [" ".join(merge) for merge in whole["model"]["merges"]]
    added = {token["content"]: token for token in whole["added_tokens"]}
    numbers = vocab | {content: token["id"] for content, token in added.items()}
    tokens = sorted(numbers, key=numbers.__getitem__)
    assert [numbers[token] for token in tokens] == list(range(len(tokens)))
    values: dict[str, Any] = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.pre": PRE[style]}

    def kind(token: str) -> int:
        if token in added:
            return 2 if token == "<unk>" else 3 if added[token]["special"] else 4
        return 6 if style == "sentencepiece" and token.startswith("<0x") else 1

    values["tokenizer.ggml.token_type"] = [kind(token) for token in tokens]
    if style == "sentencepiece":
        ranks = {merge.replace(" ", ""): number for number, merge in enumerate(merges)}
        values["tokenizer.ggml.model"] = "llama"
        values["tokenizer.ggml.scores"] = [-float(ranks.get(token, 1000 + numbers[token])) for token in tokens]
    else:
        values |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": merges}
    for key, name in {"bos": "bos_token", "eos": "eos_token"}.items():
        if config.get(name):
            content = config[name] if isinstance(config[name], str) else config[name]["content"]
            values[f"tokenizer.ggml.{key}_token_id"] = numbers[content]
    if "add_bos_token" in config:
        values["tokenizer.ggml.add_bos_token"] = config["add_bos_token"]
    template = sample(style).template
    assert template is not None
    values["tokenizer.chat_template"] = config.get("chat_template") or (DATA / style / "chat_template.jinja").read_text(
        encoding="utf-8"
    )
    return values


@pytest.mark.parametrize("style", STYLES)
def test_prompts_and_chats_get_the_reference_ids(style: str) -> None:
    tokenizer, template = load_gguf(metadata(style), "model.gguf")
    expected = sample(style).expected
    assert template is not None
    assert tokenizer.encode_prompt(expected["prompt"]) == expected["prompt_ids"]
    assert template.render(expected["messages"]) == expected["ids"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("text", TEXTS)
def test_all_kinds_of_text_get_the_same_ids(text: str, style: str) -> None:
    tokenizer, _ = load_gguf(metadata(style), "model.gguf")
    ids = tokenizer.encode(text)
    assert ids == sample(style).tokenizer.encode(text)
    assert decode(tokenizer, ids) == decode(sample(style).tokenizer, ids)


READ = {style: load_gguf(metadata(style), "model.gguf")[0] for style in STYLES}


@settings(max_examples=60, deadline=None)
@given(text=st.text(), style=st.sampled_from(STYLES))
def test_any_text_gets_the_same_ids(text: str, style: str) -> None:
    assert READ[style].encode(text) == sample(style).tokenizer.encode(text)


@pytest.mark.parametrize("change", [{"tokenizer.chat_template": ...}, {"tokenizer.chat_template": 7}])
def test_a_file_without_a_template(change: dict[str, Any]) -> None:
    values = {key: value for key, value in {**metadata("qwen"), **change}.items() if value is not ...}
    assert load_gguf(values, "model.gguf")[1] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokenizer.ggml.pre": "new"}, "pre is 'new', which is not known"),
        ({"tokenizer.ggml.pre": "\x1b[2J"}, r"pre is '\\x1b\[2J'"),
        ({"tokenizer.ggml.pre": 7}, "pre is '7'"),
        ({"tokenizer.ggml.model": "bert"}, "vocabularies of kind 'bert' are not supported"),
        ({"tokenizer.ggml.model": 7}, "tokenizer.ggml.model is missing or not what it should be"),
        ({"tokenizer.ggml.tokens": []}, "tokenizer.ggml.tokens is missing"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "tokenizer.ggml.tokens is missing"),
        ({"tokenizer.ggml.token_type": [1]}, "tokenizer.ggml.token_type is missing"),
        ({"tokenizer.ggml.merges": ["abc"]}, "tokenizer.ggml.merges is missing"),
        ({"tokenizer.ggml.merges": ...}, "tokenizer.ggml.merges is missing"),
        ({"tokenizer.ggml.merges": ["zz qq"]}, "model.gguf"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.5]}, "tokenizer.ggml.scores is missing"),
        ({"tokenizer.chat_template": "{% if %}"}, "model.gguf"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(change: dict[str, Any], said: str) -> None:
    values = {key: value for key, value in {**metadata("qwen"), **change}.items() if value is not ...}
    with pytest.raises(CheckpointError, match=said) as refused:
        load_gguf(values, "model.gguf")
    assert "\n" not in str(refused.value)
