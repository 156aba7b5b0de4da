"""The engine with words: its template or another's, and reasoning told apart where a conversation is answered."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Engine, EngineError, EngineOptions, Token
from engine.errors import CheckpointError
from tests.engine.text.models import DATA, decode, sample
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

HELLO = [{"role": "user", "content": "hello"}]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
SMALL = EngineOptions(ram=2.0, cap=2, context=128)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model without a chat template of its own."""
    case = CASES["olmoe"]
    folder = write(tmp_path / "model", replace(case, config={**case.config, "vocab_size": 384}))
    shutil.copy(DATA / "qwen" / "tokenizer.json", folder)
    return folder


def answer(engine: Engine, *, chat: bool) -> tuple[list[int], str, str]:
    """The ids of an answer, its reasoning, its text."""
    events = engine.generate(engine.render(HELLO), max_tokens=9, ignore_eos=True, chat=chat)
    tokens = [event for event in events if isinstance(event, Token)]
    return [t.id for t in tokens], "".join(t.reasoning for t in tokens), "".join(t.text for t in tokens)


def test_reasoning_is_told_apart_in_answers_to_conversations(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(CHATML + "<think>")
    with Engine.open(folder, SMALL) as engine:
        ids, reasoning, text = answer(engine, chat=True)
        words = decode(sample("qwen").tokenizer, ids, continues=True)
        assert sample("qwen").added["</think>"] not in ids
        assert (reasoning, text) == (words, "")
        assert answer(engine, chat=False) == (ids, "", words)


def test_another_template_takes_the_place_of_the_models(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jinja"
    with pytest.raises(CheckpointError, match=r"other\.jinja: cannot be read"):
        Engine.open(folder, replace(SMALL, template=str(other)))
    other.write_text("{{ messages[0].content }}!")
    with Engine.open(folder, replace(SMALL, template=str(other))) as engine:
        assert engine.render(HELLO) == engine.encode("hello!")
        assert answer(engine, chat=True)[1] == ""
    (folder / "chat_template.jinja").write_text("{% broken")
    with Engine.open(folder, replace(SMALL, template=str(other))) as engine:
        assert engine.render(HELLO) == engine.encode("hello!")


def test_a_missing_template_is_told_and_not_guessed(folder: Path) -> None:
    with Engine.open(folder, SMALL) as engine:
        with pytest.raises(EngineError, match=r"no chat template; give one with --template FILE, or use --raw"):
            engine.render(HELLO)
        assert engine.encode("hello")


def test_an_answer_keeps_its_tokens_in_the_next_turn(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(CHATML + "{{ '' }}")  # its last line break stays
    with Engine.open(folder, SMALL) as engine:
        letters = [engine.tokenizer.token_id(letter) for letter in "hello"]
        said = [*engine.render(HELLO), *(number for number in letters if number is not None)]
        assert len(said) - len(engine.render(HELLO)) == len(letters)
        answered = [*HELLO, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "more"}]
        asked = engine.render(answered)
        assert asked[: len(said)] != said
        list(engine.generate([*said, sample("qwen").added["<|im_end|>"]], max_tokens=1, ignore_eos=True))
        assert engine.render(answered)[: len(said)] == said
        assert decode(sample("qwen").tokenizer, engine.render(answered)) == decode(sample("qwen").tokenizer, asked)
