"""The chat template: the reference's text and ids, nothing smuggled in, cut answers continued."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CheckpointError, EngineError
from engine.text import ChatTemplate, Tokenizer

from .models import DATA, STYLES, decode, sample, template
from .test_tokenizer import HOSTILE

HELLO = [{"role": "user", "content": "hello"}]

CHATML = """
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + (m.content | trim) + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

KEEPS_REASONING = """
{%- for m in messages %}
  {%- if m.role == 'assistant' %}
    {%- set reasoning = m.content.split('</think>')[0].split('<think>')[-1] if '</think>' in m.content else '' %}
    {{- '<|im_start|>assistant\\n<think>\\n' + reasoning | trim + '\\n</think>\\n\\n' }}
    {{- m.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' }}
  {%- else %}
    {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

DROPS_REASONING = """
{%- for m in messages %}
  {%- set content = m.content.split('</think>')[-1] if m.role == 'assistant' else m.content %}
  {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"""


@pytest.mark.parametrize("style", STYLES)
def test_chats_equal_the_reference(style: str) -> None:
    chat = sample(style)
    assert chat.template.render_text(chat.expected["messages"]) == chat.expected["text"]
    assert chat.template.render(chat.expected["messages"]) == chat.expected["ids"]


@given(texts=st.tuples(HOSTILE, HOSTILE, HOSTILE), style=st.sampled_from(STYLES))
def test_no_message_can_bring_a_control_token(texts: tuple[str, str, str], style: str) -> None:
    """Whatever people paste, the control tokens are those of the same conversation without it."""
    chat = sample(style)
    roles = ("user", "assistant", "user")
    unknown = chat.added.get("<unk>")
    thinking = {chat.added.get("<think>"), chat.added.get("</think>")}

    def controls(messages: list[dict[str, str]]) -> list[int]:
        ids = chat.template.render(messages)
        return [i for i in ids if i in chat.added.values() and i != unknown and i not in thinking]

    hostile = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    harmless = [{"role": role, "content": "x"} for role in roles]
    assert controls(hostile) == controls(harmless)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [("<|im_", "end|>", ""), ("<|im_end|", ">", ""), ("", "so <|im", "_end|>"), ("", "  <", "|im_end|>")],
)
def test_no_control_token_arises_where_template_and_content_meet(before: str, content: str, after: str) -> None:
    seam = template(before + "{{ messages[0].content | trim }}" + after)
    messages = [{"role": "user", "content": content}]
    assert seam.render_text(messages) == before + content.strip() + after
    ids = seam.render(messages)
    assert not set(ids) & set(sample("qwen").added.values())
    assert decode(sample("qwen").tokenizer, ids) == before + content.strip() + after


def test_nested_message_fields_are_quoted_and_roles_are_not() -> None:
    nested = template("{{ messages[0].role }}{{ messages[0].tool_calls[0].arguments | tojson }}")
    call = {"arguments": {"text": "<|im_end|>", "n": 1}}
    messages = [{"role": "<|im_start|>", "tool_calls": [call]}]
    assert nested.render_text(messages) == '<|im_start|>{"text": "<|im_end|>", "n": 1}'
    assert [i for i in nested.render(messages) if i in sample("qwen").added.values()] == [353]


def test_reasoning_marks_work_in_the_assistants_words_only() -> None:
    template_ = template(DROPS_REASONING)
    said = [{"role": "user", "content": "a</think>b"}, {"role": "assistant", "content": "c</think>d"}]
    text = template_.render_text(said, add_generation_prompt=False)
    assert text == "<|im_start|>user\na</think>b<|im_end|>\n<|im_start|>assistant\nd<|im_end|>\n"
    assert sample("qwen").tokenizer.token_id("</think>") not in template_.render(said)


def test_what_templates_expect_is_there() -> None:
    features = template(
        "{%- set ns = namespace(n=0) %}{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{% set ns.n = i %}"
        "{% endfor %}{{ ns.n }}|{{ {'ä': '<b>'} | tojson }}|{{ [1] | tojson(indent=2) }}|{{ strftime_now('%Y') }}|"
        "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|"
        "{% generation %}{% set inner = 1 %}g{% endgeneration %}{{ inner }}|"
        "{{ tools is none }}|{{ documents is none }}|{{ thinking }}|{{ ('a' ~ 1) * 2 }}|{{ '%03d' % 7 }}"
        "|{{ 'a-b'.replace('-', '+') }}|{{ messages | map(attribute='role') | join(',') }}\n"
        "   {%- if true %}\n  x\n   {%- endif %}"
    )
    year = datetime.now().year
    assert features.render_text(HELLO, thinking=True) == (
        f'2|{{"ä": "<b>"}}|[\n  1\n]|{year}||<|im_end|>|<|endoftext|>|g|True|True|True|a1a1|007|a+b|user  x'
    )


def test_literal_lines_follow_trim_blocks_and_lstrip_blocks() -> None:
    assert template("a\n  {% if true %}\nb\n  {% endif %}\nc\n").render_text(HELLO) == "a\nb\nc"


def test_without_generation_prompt() -> None:
    assert template(CHATML).render_text(HELLO, add_generation_prompt=False).endswith("hello<|im_end|>\n")


def cut(content: str) -> list[dict[str, str]]:
    return [*HELLO, {"role": "assistant", "content": content}]


@pytest.mark.parametrize("content", ["It is", "It is ", "", "a <|im_end|> b", "1 <"])
def test_a_cut_answer_goes_on_where_it_stopped(content: str) -> None:
    chatml = template(CHATML)
    assert chatml.render_text(cut(content), continue_final=True) == chatml.render_text(HELLO) + content
    assert chatml.render(cut(content), continue_final=True).count(354) == 1


@pytest.mark.parametrize("style", STYLES)
def test_a_cut_answer_is_the_whole_answer_without_its_end(style: str) -> None:
    chat = sample(style)
    messages = chat.expected["messages"][:2]
    whole = chat.template.render_text(messages, add_generation_prompt=False)
    part = chat.template.render_text(messages, continue_final=True)
    assert whole.startswith(part)
    assert part.endswith(messages[-1]["content"])


def test_what_a_template_puts_before_an_answer_stays_before_a_cut_one() -> None:
    harmony = sample("o200k").template
    assert harmony.render_text(cut("It is"), continue_final=True).endswith(
        "<|start|>assistant<|channel|>final<|message|>It is"
    )


@pytest.mark.parametrize("source", [KEEPS_REASONING, DROPS_REASONING])
@pytest.mark.parametrize("content", ["<think>\nlet me", "<think>\nlet me</think>\n\nIt is"])
def test_a_cut_answer_keeps_its_reasoning(source: str, content: str) -> None:
    reasoning = template(source)
    if source == DROPS_REASONING:
        content = content.removeprefix("<think>\n")
    text = reasoning.render_text(cut(content), continue_final=True)
    if "</think>" in content and source == KEEPS_REASONING:
        content = "<think>\nlet me\n</think>\n\nIt is"
    assert text == reasoning.render_text(HELLO) + content
    assert sample("qwen").tokenizer.token_id("<think>") in reasoning.render(cut(content), continue_final=True)


def test_a_cut_answer_without_reasoning_gets_none() -> None:
    keeps = template(KEEPS_REASONING)
    assert keeps.render_text(cut("It is"), continue_final=True) == keeps.render_text(HELLO) + "It is"


def test_a_template_that_leaves_answers_out_does_not_lose_a_cut_one() -> None:
    silent = template("{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}")
    assert silent.render_text(cut("It is"), continue_final=True) == "It is"


@pytest.mark.parametrize("messages", [[], HELLO, [{"role": "assistant", "content": None}]])
def test_only_an_answer_can_be_continued(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(EngineError, match="no cut answer"):
        template(CHATML).render(messages, continue_final=True)


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('only user\\n\\x1b[31m and assistant') }}",
        "{{ messages[0].nothing.at_all }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ [][7].x }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{% include 'other' %}",
    ],
)
def test_a_refusal_is_one_line_with_the_remedy(source: str) -> None:
    with pytest.raises(EngineError, match=r"chat template refuses.*test\.jinja.*--template FILE") as caught:
        template(source).render(HELLO)
    assert str(caught.value).isprintable()


NO_SYSTEM = """
{%- for m in messages %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
  {{- m.content }}
{%- endfor %}"""


def test_a_template_that_takes_no_system_prompt_says_that() -> None:
    said = [{"role": "system", "content": "Be brief."}, *HELLO]
    with pytest.raises(
        EngineError, match=r"takes no system prompt: roles must alternate \(test\.jinja\); leave it out"
    ):
        template(NO_SYSTEM).render(said)
    with pytest.raises(EngineError, match="refuses this conversation: roles must alternate"):
        template(NO_SYSTEM).render([*said, *HELLO])


def test_a_mistake_in_the_template_is_named_by_line() -> None:
    with pytest.raises(CheckpointError, match=r"test\.jinja, line 2: not a chat template"):
        template("{{ messages }}\n{% if %}")


def folder_with(tmp_path: Path, config: dict[str, Any]) -> tuple[Path, Tokenizer]:
    content = json.loads((DATA / "qwen" / "tokenizer_config.json").read_text(encoding="utf-8"))
    content.pop("chat_template")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(content | config))
    return tmp_path, sample("qwen").tokenizer


def test_the_template_file_wins_over_the_configuration(tmp_path: Path) -> None:
    folder, tokenizer = folder_with(tmp_path, {"chat_template": "configured"})
    loaded = ChatTemplate.load(folder, tokenizer)
    assert loaded is not None
    assert loaded.render_text(HELLO) == "configured"
    (folder / "chat_template.jinja").write_text("filed")
    loaded = ChatTemplate.load(folder, tokenizer)
    assert loaded is not None
    assert loaded.render_text(HELLO) == "filed"


def test_a_template_in_a_file_of_its_own_as_json(tmp_path: Path) -> None:
    folder, tokenizer = folder_with(tmp_path, {})
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "of its own"}))
    loaded = ChatTemplate.load(folder, tokenizer)
    assert loaded is not None
    assert loaded.render_text(HELLO) == "of its own"


def test_of_named_templates_the_default_is_taken(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    loaded = ChatTemplate.load(*folder_with(tmp_path, {"chat_template": named}))
    assert loaded is not None
    assert loaded.render_text(HELLO) == "plain"


@pytest.mark.parametrize("config", [{}, {"chat_template": None}, {"chat_template": [{"name": "tool_use"}]}])
def test_a_missing_template_is_none(tmp_path: Path, config: dict[str, Any]) -> None:
    assert ChatTemplate.load(*folder_with(tmp_path, config)) is None


def test_a_configured_template_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: chat_template is not a text"):
        ChatTemplate.load(*folder_with(tmp_path, {"chat_template": 7}))


def test_a_template_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    with pytest.raises(CheckpointError, match=r"mine\.jinja: cannot be read"):
        ChatTemplate.from_file(path, sample("qwen").tokenizer)
    path.write_text("{{ messages[0].content }}!")
    assert ChatTemplate.from_file(path, sample("qwen").tokenizer).render_text(HELLO) == "hello!"
    path.write_text(" " * (1 << 20) + "!")
    with pytest.raises(CheckpointError, match=r"mine\.jinja: 1048577 bytes"):
        ChatTemplate.from_file(path, sample("qwen").tokenizer)
