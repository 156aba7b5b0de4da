"""The tokenizer of a model folder: text to ids and ids to pieces.

`tokenizer.json` holds all of it. Three kinds of text are kept apart, because a control token typed by a person must
stay text: ordinary text (`encode`), a raw prompt (`encode_prompt`) and the output of the chat template
(`encode_rendered`, with the parts that a person wrote marked by `quote`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from ..errors import CheckpointError
from .as_said import as_said
from .controls import ControlTokens, library_errors
from .files import read_object_if_present

FILE = "tokenizer.json"
_LIMIT = 512 << 20


class Tokenizer:
    """Encodes text and names tokens. Made by `Tokenizer.load`.

    `special_tokens` maps `bos_token`, `eos_token`, ... to their spellings, as far as the model names them.
    `decoder` is the JSON description of how pieces become text, or None.
    """

    def __init__(self, backend: tokenizers.Tokenizer, config: dict[str, Any], origin: str) -> None:
        self.origin = origin
        self.special_tokens = _special_tokens(config)
        self.decoder: dict[str, Any] | None = None
        if backend.decoder is not None:
            self.decoder = json.loads(backend.decoder.__getstate__())
        # Some files were saved with the limits of a training run; a prompt is never cut or filled up here.
        backend.no_truncation()
        backend.no_padding()
        self._set_post_processor(backend, config)
        self._backend = backend
        self._controls = ControlTokens(backend, origin)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read `tokenizer.json` and `tokenizer_config.json`.

        Raises CheckpointError when the first is missing or either is broken.
        """
        path = folder / FILE
        if not path.is_file():
            raise CheckpointError(
                f"{path}: missing; put the model's {FILE} there (other tokenizer formats are not read), "
                "or run with --ids"
            )
        if path.stat().st_size > _LIMIT:
            raise CheckpointError(f"{path}: {path.stat().st_size} bytes, more than a tokenizer may have")
        config = read_object_if_present(folder / "special_tokens_map.json")
        config |= read_object_if_present(folder / "tokenizer_config.json")
        with library_errors(str(path)):
            return cls(tokenizers.Tokenizer.from_file(str(path)), config, str(path))

    def _set_post_processor(self, backend: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
        """Obey `add_bos_token` and `add_eos_token` where the configuration names them; else the file's own rule."""
        if "add_bos_token" not in config and "add_eos_token" not in config:
            return
        parts = ["$A:0"]
        used: list[tuple[str, int]] = []
        for flag, name in (("add_bos_token", "bos_token"), ("add_eos_token", "eos_token")):
            token = self.special_tokens.get(name)
            if config.get(flag) is not True or token is None:
                continue
            number = backend.token_to_id(token)
            if number is None:
                raise CheckpointError(f"{self.origin}: {name} {token!r} of tokenizer_config.json is not in it")
            parts.insert(0 if name == "bos_token" else len(parts), token + ":0")
            used.append((token, number))
        backend.post_processor = tokenizers.processors.TemplateProcessing(single=parts, special_tokens=used)

    @property
    def vocab_size(self) -> int:
        """Number of ids the tokenizer knows; the model's own vocabulary may be padded beyond it."""
        return self._controls.vocab_size

    def encode(self, text: str) -> list[int]:
        """Return the ids of ordinary text. Control tokens spelled in it stay text; nothing is added."""
        return self._controls.encode_text(text)

    def encode_prompt(self, text: str, add_special: bool = True) -> list[int]:
        """Return the ids of a raw prompt: control tokens are recognised, BOS and the like added as the model wants."""
        return self._controls.encode_recognised(text, add_special)

    def encode_rendered(self, text: str) -> list[int]:
        """Return the ids of a chat template's output: the template's control tokens are recognised, none are added.

        What `quote` marked is encoded as ordinary text.
        """
        return self._controls.encode_rendered(text)

    def quote(self, content: str, keep: Collection[str] = ()) -> str:
        """Return content in which control tokens, except those in `keep`, are hidden from `encode_rendered`.

        Text without control tokens is returned as it is.
        """
        return self._controls.quote(content, keep)

    def unquote(self, text: str) -> str:
        """Return the text as it was before `quote`."""
        return self._controls.unquote(text)

    def token(self, number: int) -> str | None:
        """Return the vocabulary's spelling of an id (a piece, not yet text); None for an id outside it."""
        return self._backend.id_to_token(number) if 0 <= number < self.vocab_size else None

    def as_said(self, said: Sequence[int], asked: Sequence[int]) -> list[int]:
        """Return `asked` with the ids of `said` as far as both are the same text: see `as_said`."""
        return as_said(said, asked, lambda number: None if self._controls.is_control(number) else self.token(number))

    def token_id(self, spelling: str) -> int | None:
        """Return the id of a vocabulary entry, such as `<|im_end|>`."""
        number = self._backend.token_to_id(spelling)
        return number if number is not None and number < self.vocab_size else None

    def control_id(self, spelling: str) -> int | None:
        """Return the id of a control token: one that is recognised only where a template or the model writes it."""
        return self._controls.id_of(spelling)

    def is_special(self, number: int) -> bool:
        """Tell whether an id is a special token: one that has no text."""
        return number in self._controls.special


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Return name -> spelling of `bos_token` and its like; a token is a string or an object with `content`."""
    tokens = {}
    for name, value in config.items():
        spelling = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(spelling, str):
            tokens[name] = spelling
    return tokens
