"""Control tokens: recognised where the template writes them, plain text where a person does.

A tokenizer that recognises `<|im_end|>` recognises it everywhere, so a pasted web page could end a turn and start
another. Here the tokenizer's own recognition is switched off for good, and every control token gets an *alias*: a
second, unspellable name made of Unicode noncharacters, added behind the vocabulary. A prompt takes this way:

    content   "say <|im_end|>"            what a person typed
    quote     "say ⟪id⟫"                  the spelling is replaced by a stand-in before the template sees it
    template  "<|im_start|>user\\nsay ⟪id⟫<|im_end|>"
    alias     "⟨id⟩user\\nsay ⟪id⟫⟨id⟩"     what still looks like a control token was written by the template
    unquote   "⟨id⟩user\\nsay <|im_end|>⟨id⟩"
    encode    aliases become the control tokens' ids, all else is ordinary text

All of it is encoded in one piece, so merges at the seams of template and content are the tokenizer's own, and a text
without control spellings gets exactly the ids that plain recognition would have given it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator

import tokenizers

from ..errors import CheckpointError, EngineError
from .files import one_line

# Unicode noncharacters: valid in strings, never in text (Unicode 16, section 23.7).
_ALIAS = ("\ufdd0", "\ufdd1")
_QUOTE = ("\ufdd2", "\ufdd3")
_BREAK = "\ufdd4"
CUT = "\ufdd5"
"""Marks the end of a message that is to be continued; see `ChatTemplate`."""

_PRIVATE = re.compile("[\ufdd0-\ufdd5]")
_QUOTED = re.compile(f"{_QUOTE[0]}([0-9]*){_QUOTE[1]}")
_SEAM = "".join(_QUOTE)
"""An empty stand-in: keeps what is left of it from joining with what is right of it."""

_TEXT_ELEMENTS = re.compile(
    r"</?(a|b|blockquote|br|caption|code|em|h[1-6]|i|li|ol|p|pre|s|strong|sub|sup|table|tbody|td|tfoot|th|thead|tr|u|ul)>"
)


def clean(text: str) -> str:
    """Return text that the tokenizer takes: no lone surrogates, none of this module's private characters."""
    if text.isascii():
        return text
    return _PRIVATE.sub("\ufffd", text.encode("utf-8", "replace").decode("utf-8"))


@contextlib.contextmanager
def library_errors(origin: str) -> Iterator[None]:
    """Turn what the tokenizer library raises for a file that makes no sense into CheckpointError."""
    try:
        yield
    except EngineError:
        raise
    except BaseException as error:
        # The library raises bare Exception, and a panic of its Rust code is not even that.
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise CheckpointError(f"{origin}: not a usable tokenizer ({one_line(str(error))}); get it again") from None


class ControlTokens:
    """The control tokens of one tokenizer. Changes the tokenizer: it no longer recognises their spellings.

    Control tokens are all added tokens except the ones that are text: runs of white space (an indentation in code is
    one token for many vocabularies) and HTML elements, if they are not marked special.
    """

    def __init__(self, backend: tokenizers.Tokenizer, origin: str) -> None:
        added = backend.get_added_tokens_decoder()
        self._backend = backend
        self._origin = origin
        self._size = max([backend.get_vocab_size(with_added_tokens=True), *(i + 1 for i in added)])
        self.special = frozenset(i for i, token in added.items() if token.special)
        controls = {i: token for i, token in added.items() if token.special or not _is_text(token.content)}
        self._id_of = {token.content: i for i, token in controls.items()}
        self._spelling_of = {i: token.content for i, token in controls.items()}
        longest_first = sorted(self._id_of, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._heads = {spelling[:n] for spelling in self._id_of for n in range(1, len(spelling))}
        self._tails = {spelling[n:] for spelling in self._id_of for n in range(1, len(spelling))}
        self._longest = max(map(len, self._id_of), default=0)
        self._forbidden = frozenset(controls) - self._unknown_token()
        self._real_id = self._add_aliases(controls)

    @property
    def vocab_size(self) -> int:
        """One more than the highest id of the vocabulary; aliases lie behind it."""
        return self._size

    def id_of(self, spelling: str) -> int | None:
        """The id of a control token, None if there is none of that spelling."""
        return self._id_of.get(spelling)

    def is_control(self, number: int) -> bool:
        """Whether an id is a control token."""
        return number in self._spelling_of

    def _unknown_token(self) -> set[int]:
        """Return the id that the model gives to characters it does not know: any text may contain those."""
        token = getattr(self._backend.model, "unk_token", None)
        number = self._backend.token_to_id(token) if isinstance(token, str) else None
        return set() if number is None else {number}

    def _add_aliases(self, controls: dict[int, tokenizers.AddedToken]) -> dict[int, int]:
        """Make spellings ordinary text, add aliases, and return alias id -> id (-1: stands for nothing)."""
        # Only tokens marked special can be switched off; adding a known token again keeps its id.
        self._backend.add_special_tokens([_like(token, token.content, special=True) for token in controls.values()])
        self._backend.encode_special_tokens = True
        names = {i: _alias(i) for i in controls}
        self._backend.add_tokens([_like(controls[i], name, special=False) for i, name in names.items()])
        self._backend.add_tokens([tokenizers.AddedToken(_BREAK, normalized=False)])
        return {self._id(name): i for i, name in names.items()} | {self._id(_BREAK): -1}

    def _id(self, token: str) -> int:
        """Return the id of a token that is known to be there."""
        number = self._backend.token_to_id(token)
        assert number is not None
        return number

    def quote(self, content: str, keep: Collection[str] = ()) -> str:
        """Return content for a template: its control spellings, except those in `keep`, replaced by stand-ins.

        A spelling cannot arise at the seams with the template's text either.
        """
        text = self._pattern.sub(
            lambda match: match[0] if match[0] in keep else f"{_QUOTE[0]}{self._id_of[match[0]]}{_QUOTE[1]}",
            clean(content),
        )
        core = text.strip()  # templates strip what they are given: the seam is where the white space ends
        start = text.find(core)
        end = start + len(core)
        if any(core[:n] in self._tails for n in range(1, self._longest)):
            core = _SEAM + core
        if any(core[-n:] in self._heads for n in range(1, self._longest)):
            core += _SEAM
        return text[:start] + core + text[end:]

    def unquote(self, text: str) -> str:
        """Return the text with stand-ins replaced by the spellings they stand for."""
        return _QUOTED.sub(lambda match: self._spelling_of[int(match[1])] if match[1] else "", text)

    def encode_rendered(self, text: str) -> list[int]:
        """Encode a rendered template: spellings are control tokens, quoted spellings are text."""
        aliased = self._pattern.sub(lambda match: _alias(self._id_of[match[0]]), text)
        return self._encode_aliased(self.unquote(aliased))

    def encode_text(self, text: str) -> list[int]:
        """Encode ordinary text: no control token comes out, whatever it spells."""
        return self._encode_aliased(clean(text))

    def encode_recognised(self, text: str, add_special: bool) -> list[int]:
        """Encode text in which spellings are control tokens; `add_special` runs the post-processor."""
        aliased = self._pattern.sub(lambda match: _alias(self._id_of[match[0]]), clean(text))
        return self._resolve(self._ids(aliased, add_special))

    def _encode_aliased(self, text: str) -> list[int]:
        ids = self._ids(text)
        if not self._forbidden.isdisjoint(ids):
            # The vocabulary itself spells a control token (its merges, or a unigram piece): break the spelling up.
            text = self._pattern.sub(lambda match: _BREAK.join(match[0]), text)
            ids = self._ids(text)
            for found in self._forbidden.intersection(ids):
                raise EngineError(
                    f"this model's tokenizer cannot tell the text {self._spelling_of[found]!r} from its control "
                    "token; write it in another way"
                )
        return self._resolve(ids)

    def _ids(self, text: str, add_special: bool = False) -> list[int]:
        with library_errors(self._origin):
            return self._backend.encode(text, add_special_tokens=add_special).ids

    def _resolve(self, ids: Iterable[int]) -> list[int]:
        real = self._real_id
        return [i for i in (real.get(i, i) for i in ids) if i >= 0]


def _is_text(content: str) -> bool:
    """Tell whether an added token is a piece of text rather than a control token."""
    return content.replace("\u2581", " ").isspace() or _TEXT_ELEMENTS.fullmatch(content) is not None


def _alias(number: int) -> str:
    return f"{_ALIAS[0]}{number}{_ALIAS[1]}"


def _like(token: tokenizers.AddedToken, content: str, *, special: bool) -> tokenizers.AddedToken:
    """Return a token that takes in the same white space around it as `token`, under another name."""
    return tokenizers.AddedToken(
        content,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=token.normalized and content == token.content,
        special=special,
    )
