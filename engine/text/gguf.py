"""Tokenizer and chat template from a GGUF file's metadata.

llama.cpp keeps vocabulary and merges, and for all else a name: `tokenizer.ggml.model` for the kind of vocabulary,
`tokenizer.ggml.pre` for how text is cut into words before merging. What the names stand for is written down here; an
unknown one is refused, because words cut in another way give other ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import tokenizers

from ..errors import CheckpointError
from .controls import library_errors
from .template import ChatTemplate
from .tokenizer import Tokenizer

_PREFIX = "tokenizer.ggml."


def has_vocabulary(metadata: Mapping[str, Any]) -> bool:
    """Whether a file has a vocabulary; one without takes token ids alone."""
    return bool(metadata.get(_PREFIX + "model", "no_vocab") != "no_vocab")


_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
"""Types of vocabulary entries that are no ordinary pieces."""

_NAMED = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
"""tokenizer_config.json's names of special tokens, and GGUF's."""

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str, letters: str = r"\p{L}") -> str:
    """Llama 3's and Qwen's words: contractions, letters, so many digits, signs, spaces."""
    signs = rf" ?[^\s{letters}\p{{N}}]+[\r\n]*"
    group = f"[{letters}]" if len(letters) > 5 else letters
    return rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{group}+|{digits}|{signs}|{_SPACES}"


def _cased_words(less: str = "", signs: str = r"[\r\n/]*") -> str:
    """OpenAI's later words: capitals and small letters apart; `less` is taken off the letters."""
    upper, lower = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{less}]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{less}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{upper}*{lower}+{_CONTRACTIONS}?|{start}{upper}+{lower}*{_CONTRACTIONS}?|"
        rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+{signs}|{_SPACES}"
    )


def _characters(ranges: str) -> str:
    """A class of characters from hexadecimal ranges."""
    ends = [[f"\\x{{{end}}}" for end in part.split("-")] for part in ranges.split()]
    return "[" + "".join("-".join(pair) for pair in ends) + "]"


_CASED_LETTERS = """
41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C
38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B
1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4
1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113
2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B
2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06
FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF
1E900-1E943
"""
_DEEPSEEK_LLM = (
    r"[\r\n]",
    r"\s?" + _characters(_CASED_LETTERS) + "+",
    r"\s?" + _characters("21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002") + "+",
    r"\s+$",
    _characters("4E00-9FA5 800-4E00 AC00-D7FF") + "+",
    r"\p{N}+",
)
_DEEPSEEK = (
    r"\p{N}{1,3}",
    _characters("4E00-9FA5 3040-309F 30A0-30FF") + "+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
    r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
)
_QWEN, _LLAMA3 = _words(r"\p{N}"), _words(r"\p{N}{1,3}")
_GPT2: tuple[str, ...] = ()
"""No pattern: the library's own, which is GPT-2's."""

_PATTERNS: dict[str, tuple[str, ...]] = {
    "gpt-2": _GPT2, "olmo": _GPT2, "qwen2": (_QWEN,), "qwen35": (_words(r"\p{N}", r"\p{L}\p{M}"),),
    "llama-bpe": (_LLAMA3,), "glm4": (_LLAMA3,), "glm5": (_LLAMA3,), "chatglm-bpe": (_LLAMA3,),
    "gpt-4o": (_cased_words(),), "minimax-m2": (_cased_words(),),
    "kimi-k2": (r"[\p{Han}]+|" + _cased_words(r"&&[^\p{Han}]", r"[\r\n]*"),),
    "deepseek-llm": _DEEPSEEK_LLM, "deepseek-v3": _DEEPSEEK,
}  # fmt: skip
"""Patterns by `tokenizer.ggml.pre`; text is cut by one after another."""

_NFC = ("qwen2", "qwen35")
"""Those whose text is composed first."""

_WHOLE_WORDS = ("llama-bpe", "glm4", "glm5")
"""Those that take a word which is in the vocabulary as it is, whatever the merges make of it."""


def load_gguf(metadata: Mapping[str, Any], origin: str) -> tuple[Tokenizer, ChatTemplate | None]:
    """The tokenizer, and the template if there is one. Raises CheckpointError naming what is missing or not known."""
    vocabulary = _Vocabulary(metadata, origin)
    with library_errors(origin):
        backend = tokenizers.Tokenizer.from_str(json.dumps(vocabulary.description(), ensure_ascii=False))
        tokenizer = Tokenizer(backend, vocabulary.config(), origin)
    template = metadata.get("tokenizer.chat_template")
    return tokenizer, ChatTemplate(template, tokenizer, origin) if isinstance(template, str) else None


def hub_files(metadata: Mapping[str, Any], origin: str) -> dict[str, bytes]:
    """The same as the files of a hub folder, by name. Raises CheckpointError like `load_gguf`."""
    vocabulary = _Vocabulary(metadata, origin)
    config, template = vocabulary.config(), metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return {
        name: json.dumps(value, ensure_ascii=False).encode()
        for name, value in {"tokenizer.json": vocabulary.description(), "tokenizer_config.json": config}.items()
    }


class _Vocabulary:
    """A GGUF file's vocabulary, checked."""

    def __init__(self, metadata: Mapping[str, Any], origin: str) -> None:
        self._metadata, self._origin = metadata, origin
        self._kind, self._pre = self._value("model", str), metadata.get(_PREFIX + "pre", "default")
        self._tokens: list[str] = self._value("tokens", list)
        self._types: list[int] = metadata.get(_PREFIX + "token_type") or [1] * len(self._tokens)
        if not self._tokens or not all(isinstance(token, str) for token in self._tokens):
            raise self._wrong("tokens")
        if not isinstance(self._types, list) or len(self._types) != len(self._tokens):
            raise self._wrong("token_type")

    def _wrong(self, key: str) -> CheckpointError:
        return CheckpointError(
            f"{self._origin}: metadata {_PREFIX}{key} is missing or not what it should be; get the file again, or put "
            "the model's tokenizer.json into a folder with it"
        )

    def _value(self, key: str, kind: type) -> Any:
        value = self._metadata.get(_PREFIX + key)
        if type(value) is not kind:
            raise self._wrong(key)
        return value

    def config(self) -> dict[str, Any]:
        """What tokenizer_config.json would say."""
        config: dict[str, Any] = {}
        for name, key in _NAMED.items():
            number = self._metadata.get(f"{_PREFIX}{key}_token_id")
            if type(number) is int and 0 <= number < len(self._tokens):
                config[name] = self._tokens[number]
        defaults = {"llama": True, "gpt2": False}
        config["add_bos_token"] = bool(self._metadata.get(_PREFIX + "add_bos_token", defaults.get(self._kind, False)))
        config["add_eos_token"] = bool(self._metadata.get(_PREFIX + "add_eos_token", False))
        return config

    def description(self) -> dict[str, Any]:
        """What tokenizer.json would say."""
        if self._kind == "gpt2":
            parts = self._byte_level()
        elif self._kind == "llama":
            parts = self._sentencepiece()
        else:
            raise CheckpointError(
                f"{self._origin}: vocabularies of kind {self._kind[:40]!a} are not supported (supported: gpt2, llama); "
                "put the model's tokenizer.json into a folder with the file"
            )
        return {
            "version": "1.0", "truncation": None, "padding": None, "post_processor": None,
            "added_tokens": list(self._added()), **parts,
        }  # fmt: skip

    def _added(self) -> Iterator[dict[str, Any]]:
        """Tokens that are recognised in text, control tokens as such."""
        plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for number, (token, kind) in enumerate(zip(self._tokens, self._types, strict=True)):
            if kind in (_CONTROL, _USER_DEFINED) or (kind == _UNKNOWN and self._kind == "llama"):
                yield {"id": number, "content": token, "special": kind != _USER_DEFINED, **plain}

    def _bpe(self, merges: list[list[str]], **more: Any) -> dict[str, Any]:
        return {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(self._tokens)}, "merges": merges, **more,
        }  # fmt: skip

    def _byte_level(self) -> dict[str, Any]:
        """Bytes as characters, merged in the order of a list (GPT-2)."""
        patterns = _PATTERNS.get(self._pre) if isinstance(self._pre, str) else None
        if patterns is None:
            raise CheckpointError(
                f"{self._origin}: {_PREFIX}pre is {str(self._pre)[:40]!a}, which is not known (known: "
                f"{', '.join(_PATTERNS)}); put the model's tokenizer.json into a folder with the file"
            )
        merges = [merge.split(" ") for merge in self._value("merges", list) if isinstance(merge, str)]
        if not all(len(merge) == 2 for merge in merges):
            raise self._wrong("merges")
        cuts: list[dict[str, Any]] = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in patterns
        ]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not patterns}
        return {
            "normalizer": {"type": "NFC"} if self._pre in _NFC else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, level]},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": self._bpe(merges, ignore_merges=self._pre in _WHOLE_WORDS),
        }

    def _sentencepiece(self) -> dict[str, Any]:
        """Pieces with scores, the highest merged first (SentencePiece); bytes where there is no piece."""
        scores = self._value("scores", list)
        if len(scores) != len(self._tokens):
            raise self._wrong("scores")
        prefix = self._metadata.get(_PREFIX + "add_space_prefix", True) is True
        space: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
        decoders: list[dict[str, Any]] = [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        ]  # fmt: skip
        if prefix:
            space.insert(0, {"type": "Prepend", "prepend": "▁"})
            decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        unknown = next((t for t, kind in zip(self._tokens, self._types, strict=True) if kind == _UNKNOWN), None)
        return {
            "normalizer": {"type": "Sequence", "normalizers": space},
            "pre_tokenizer": None,
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": self._bpe(self._merges(scores), unk_token=unknown, fuse_unk=True, byte_fallback=True),
        }

    def _merges(self, scores: list[float]) -> list[list[str]]:
        """Every way to put an ordinary piece together from two, best piece first."""
        numbers = {token: number for number, token in enumerate(self._tokens)}
        found = []
        for number, token in enumerate(self._tokens):
            if self._types[number] != 1:
                continue
            halves = [(token[:i], token[i:]) for i in range(1, len(token))]
            whole = [pair for pair in halves if pair[0] in numbers and pair[1] in numbers]
            whole.sort(key=lambda pair: (numbers[pair[0]], numbers[pair[1]]))
            found += [(-scores[number], list(pair)) for pair in whole]
        found.sort(key=lambda merge: merge[0])
        return [pair for _, pair in found]
