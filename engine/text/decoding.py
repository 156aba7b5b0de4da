"""Ids back to text, one at a time.

A token is not a piece of text: it may hold half a character, or begin with a space that only counts inside a
sentence. The decoder keeps the state that a re-decoding of the whole answer would otherwise recover, so a token
costs the same wherever it stands, and all the text pushed out equals the text decoded at once.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Any

from ..errors import UnsupportedModelError
from .tokenizer import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_of_char() -> dict[str, int]:
    """Return the alphabet in which byte-level vocabularies are written: printable bytes as they are, the rest from
    U+0100 on (GPT-2's bytes_to_unicode)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


_BYTE_OF_CHAR = _byte_of_char()


@dataclass
class _Pieces:
    """How the pieces of one vocabulary become bytes; read from the tokenizer's `decoder`.

    byte_level: pieces are written in the byte alphabet.
    replace: (what, by what) in every piece, in order; byte_fallback: `<0xE2>` is a byte.
    strip: (character, how many) taken off the front of the whole text.
    metaspace: the character that stands for a space, and for nothing in the first piece.
    """

    byte_level: bool = False
    replace: tuple[tuple[str, str], ...] = ()
    byte_fallback: bool = False
    strip: tuple[str, int] = ("", 0)
    metaspace: str = ""
    metaspace_drops_first: bool = False

    @classmethod
    def read(cls, decoder: dict[str, Any] | None, origin: str) -> _Pieces:
        """Raises UnsupportedModelError for a rule that is not known."""
        pieces = cls()
        fused = False
        for step in _steps(decoder):
            match step:
                case {"type": "ByteLevel"}:
                    pieces.byte_level = True
                case {"type": "ByteFallback"}:
                    pieces.byte_fallback = True
                case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
                    pieces.replace += ((old, new),)
                case {"type": "Fuse"}:
                    fused = True
                case {"type": "Strip", "content": str(char), "start": int(count), "stop": 0} if fused:
                    pieces.strip = (char, count)
                case {"type": "Metaspace", "replacement": str(char), **rest}:
                    pieces.metaspace = char
                    pieces.metaspace_drops_first = rest.get("prepend_scheme", "always") != "never"
                case _:
                    raise UnsupportedModelError(
                        f"{origin}: decoder step {step.get('type', 'none')!r} is not supported, so answers could not "
                        "be shown as text"
                    )
        return pieces

    def to_bytes(self, piece: str, first: bool) -> bytes:
        """Return the bytes of one piece; `first` of all that have text."""
        if self.byte_level:
            # A piece with a character outside the alphabet is an added token and means itself.
            values = [_BYTE_OF_CHAR.get(char, -1) for char in piece]
            return piece.encode() if -1 in values else bytes(values)
        for old, new in self.replace:
            piece = piece.replace(old, new)
        if self.byte_fallback and (match := _BYTE.fullmatch(piece)):
            return bytes([int(match[1], 16)])
        if self.metaspace:
            piece = piece.replace(self.metaspace, "" if first and self.metaspace_drops_first else " ")
        return piece.encode()


def _steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the decoder's steps in order, sequences flattened; one empty step when there is none."""
    if decoder is None:
        return [{}]
    if decoder.get("type") != "Sequence":
        return [decoder]
    return [step for part in decoder["decoders"] for step in _steps(part)]


class IncrementalDecoder:
    """Turns the ids of one answer into text as they come.

    `continues` says that the answer goes on a text before it, as in raw completion: the space that some vocabularies
    put before the first word is then part of the answer, not the start of a text.

    Raises UnsupportedModelError when the tokenizer's decoding rule is not known.
    """

    def __init__(self, tokenizer: Tokenizer, continues: bool = False) -> None:
        self._tokenizer = tokenizer
        self._pieces = _Pieces.read(tokenizer.decoder, tokenizer.origin)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = not continues
        self._strip = 0 if continues else self._pieces.strip[1]

    def push(self, number: int) -> str:
        """Return the text that this id completes: '' for special and unknown ids and for parts of a character."""
        piece = self._tokenizer.token(number)
        if piece is None or self._tokenizer.is_special(number):
            return ""
        data = self._pieces.to_bytes(piece, self._first)
        self._first = False
        return self._stripped(self._utf8.decode(data))

    def flush(self) -> str:
        """Return what is still held back: marks for the bytes of an unfinished character. Ends the text."""
        return self._stripped(self._utf8.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            if not text.startswith(self._pieces.strip[0]):
                self._strip = 0
                break
            text = text[1:]
            self._strip -= 1
        return text
