"""Tokenizers for tests: five small ones in the styles that real models use, and odd ones made on the spot."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from engine.text import ChatTemplate, IncrementalDecoder, Tokenizer

DATA = Path(__file__).parent / "data"
STYLES = tuple(sorted(folder.name for folder in DATA.iterdir()))
BYTE_LEVEL = tuple(style for style in STYLES if style != "sentencepiece")


@dataclass(frozen=True)
class Sample:
    """A tokenizer, its template, the same tokenizer without anything of ours, and what both must give."""

    tokenizer: Tokenizer
    template: ChatTemplate
    plain: tokenizers.Tokenizer
    expected: dict[str, Any]

    @property
    def added(self) -> dict[str, int]:
        return {token.content: number for number, token in self.plain.get_added_tokens_decoder().items()}


@functools.cache
def sample(style: str) -> Sample:
    folder = DATA / style
    tokenizer = Tokenizer.load(folder)
    template = ChatTemplate.load(folder, tokenizer)
    assert template is not None
    plain = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Sample(tokenizer, template, plain, json.loads((folder / "expected.json").read_text(encoding="utf-8")))


def decode(tokenizer: Tokenizer, ids: list[int], *, continues: bool = False) -> str:
    decoder = IncrementalDecoder(tokenizer, continues)
    return "".join([*(decoder.push(number) for number in ids), decoder.flush()])


def template(source: str, style: str = "qwen") -> ChatTemplate:
    return ChatTemplate(source, sample(style).tokenizer, "test.jinja")


def load(folder: Path, backend: tokenizers.Tokenizer, config: dict[str, Any] | None = None) -> Tokenizer:
    """Save a tokenizer as a model folder has it, and load it."""
    backend.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return Tokenizer.load(folder)


def byte_level(*added: tokenizers.AddedToken) -> tokenizers.Tokenizer:
    """Return a tokenizer of single bytes and the given tokens."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_tokens(list(added))
    return backend


def unigram(pieces: list[str], *special: str) -> tokenizers.Tokenizer:
    """Return a unigram tokenizer, whose pieces match anywhere in a text."""
    backend = tokenizers.Tokenizer(
        tokenizers.models.Unigram([("<unk>", 0.0), *((piece, -float(len(piece) == 1)) for piece in pieces)], unk_id=0)
    )
    backend.decoder = tokenizers.decoders.Fuse()
    backend.add_special_tokens(list(special))
    return backend
