"""Reasoning and answer: told apart in every style, however the text is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from engine.text import AnswerReader, ChatTemplate, Tokenizer

from .models import byte_level, load, sample, template

HELLO = [{"role": "user", "content": "hello </think> <think>"}]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
CHANNELS = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>"
STYLES = {
    "token": CHATML + "{# <think> #}",
    "opened": CHATML + "<think>\n",
    "closed": CHATML + "<think>\n\n</think>\n\n",
    "harmony": "{# <|channel|> #}<|start|>user<|message|>{{ messages[0].content }}<|end|><|start|>assistant",
    "gemma": "{# <|channel> #}<|turn>user\n{{ messages[0].content }}<turn|>\n<|turn>model\n",
}


@pytest.fixture(scope="module", params=["tokens", "text"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Once with every tag as a token, some of them special, and once with none; turns are marked by tokens in both."""
    tags = ["<think>", "</think>", "<answer>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|channel>"]
    added = [tokenizers.AddedToken(tag, special="|" in tag, normalized=False) for tag in [*tags, "<channel|>"]]
    turns = [tokenizers.AddedToken(tag, special=True) for tag in ("<|im_start|>", "<|im_end|>", "<|turn>", "<turn|>")]
    backend = byte_level(*(added if request.param == "tokens" else []), *turns)
    return load(tmp_path_factory.mktemp(request.param), backend)


def split(tokenizer: Tokenizer, style: str, written: str) -> tuple[str, str]:
    """What is made of an answer, token by token."""
    chat = ChatTemplate(STYLES[style], tokenizer, "test")
    reader = chat.reader(chat.render(HELLO))
    return pieces_of(reader, tokenizer.encode_prompt(written, add_special=False))


def pieces_of(reader: AnswerReader, ids: list[int]) -> tuple[str, str]:
    parts = [*map(reader.push, ids), reader.end()]
    return "".join(part.reasoning for part in parts), "".join(part.answer for part in parts)


@pytest.mark.parametrize(
    ("style", "written", "reasoning", "answer"),
    [
        ("token", "<think>\nwhy?\n</think>\n\nBecause.\n", "\nwhy?\n", "Because.\n"),
        ("token", "\n<think></think>Because", "", "Because"),
        ("token", "Because.", "", "Because."),
        ("token", " \n", "", " \n"),
        ("token", "  Because", "", "  Because"),
        ("token", "Of <think> and </think>", "", "Of <think> and </think>"),
        ("token", "<think>why", "why", ""),
        ("token", "<think>a <think> b</think>c </think> d", "a <think> b", "c </think> d"),
        ("token", "<think>a</think>\n<answer>\nyes\n</answer>\n", "a", "yes"),
        ("token", "<think>a</think>yes</answer>", "a", "yes</answer>"),
        ("token", "<answer>yes</answer>", "", "<answer>yes</answer>"),
        ("opened", "why?\n</think>\n\nBecause.", "why?\n", "Because."),
        ("opened", "why é", "why é", ""),
        ("closed", "Because.", "", "Because."),
        ("closed", "Because </think>", "", "Because </think>"),
        ("harmony", CHANNELS.removesuffix("<|return|>"), "hm\n\n", "yes"),
        ("harmony", "<|channel|>final<|message|>yes", "", "yes"),
        ("harmony", "<|channel|>commentary to=f<|message|>{}<|end|>", "{}\n\n", ""),
        ("harmony", "Plain words", "", "Plain words"),
        ("harmony", "Plain words " * 20, "", "Plain words " * 20),
        ("harmony", "<|channel|>analysis", "", ""),
        ("gemma", "<|channel>thought\nhm\n<channel|>yes", "hm\n", "yes"),
        ("gemma", "<|channel>thought\n<channel|>yes", "", "yes"),
        ("gemma", "yes", "", "yes"),
    ],
)
def test_reasoning_is_told_from_the_answer(
    tokenizer: Tokenizer, style: str, written: str, reasoning: str, answer: str
) -> None:
    assert split(tokenizer, style, written) == (reasoning, answer)


PIECES = (
    "<think>", "</think>", "<answer>", "</answer>", "<|channel|>", "final", "<|message|>", "<|end|>", "<|start|>",
    "assistant", "<|channel>", "<channel|>", "thought\n",
)  # fmt: skip


@given(
    style=st.sampled_from([*STYLES]),
    parts=st.lists(
        st.sampled_from([*PIECES, " ", "\n", "é", "a", "<", "nk>", "<thi"]),
        max_size=12,
    ),
    data=st.data(),
)
def test_no_cut_changes_the_result(style: str, parts: list[str], data: st.DataObject) -> None:
    """A vocabulary whose tokens are any pieces of the text gives what single characters give."""
    written = "".join(parts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(written)), max_size=8)) | {0, len(written)})
    chat = template(STYLES[style], "sentencepiece")

    def read(pieces: list[str]) -> tuple[str, str]:
        reader = chat.reader(chat.render(HELLO))
        got = [reader._scanned(piece) for piece in pieces] + [reader.end()]
        return "".join(part.reasoning for part in got), "".join(part.answer for part in got)

    assert read([written[a:b] for a, b in pairwise(cuts)]) == read(list(written))


@given(st.text())
def test_without_tags_all_is_answer(text: str) -> None:
    for style in ("qwen", "o200k", "sentencepiece"):
        chat = sample(style)
        ids = chat.tokenizer.encode(text)
        plain = AnswerReader(chat.tokenizer, chat.template.render(HELLO), None)
        if "<" not in text:
            assert pieces_of(chat.template.reader(chat.template.render(HELLO)), ids) == pieces_of(plain, ids)


def test_what_spells_a_tag_is_text_where_tags_are_tokens() -> None:
    chat = template(STYLES["opened"])
    tokens = sample("qwen").tokenizer
    ids = [*tokens.encode("a </think> b"), *tokens.encode_prompt("</think>c", add_special=False)]
    assert pieces_of(chat.reader(chat.render(HELLO)), ids) == ("a </think> b", "c")


ANSWERS = [("\nhm", ""), ("\nhm", "It is")]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("reasoning", "content"), ANSWERS)
def test_a_cut_answer_goes_on_in_its_reasoning_or_after_it(
    tokenizer: Tokenizer, style: str, reasoning: str, content: str
) -> None:
    chat = ChatTemplate(STYLES[style], tokenizer, "test")
    cut = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    text = chat.render_text([*HELLO, cut], continue_final=True)
    opened = chat.render_text(HELLO)
    assert text.startswith(opened)
    reader = chat.reader(chat.render(HELLO))
    if style != "closed":  # there the template says that there is no reasoning
        written = tokenizer.encode_prompt(text.removeprefix(opened), add_special=False)
        got = pieces_of(reader, written)
        assert (got[0].strip(), got[1]) == (reasoning.strip(), content)
    more = chat.reader(chat.render([*HELLO, cut], continue_final=True))
    ids = tokenizer.encode(" more")
    assert pieces_of(more, ids) == (("", " more") if content else (" more", ""))


@pytest.mark.parametrize("key", ["reasoning_content", "thinking"])
def test_reasoning_goes_to_templates_that_ask_for_it(key: str) -> None:
    wants = template("{% for m in messages %}{{ m.role }}:{{ m." + key + " }}:{{ m.content }};{% endfor %}")
    said = [*HELLO, {"role": "assistant", "content": "b", "reasoning_content": "\na <|im_end|>\n"}]
    assert wants.render_text(said).endswith("assistant:a <|im_end|>:b;")
    assert sample("qwen").added["<|im_end|>"] not in wants.render(said)
    silent = template("{{ messages | tojson }}")
    assert "reasoning" not in silent.render_text(said)
