"""Reasoning told apart from the answer, while both come.

Models that reason write it before their answer, between tags of their own:

    <think> ... </think> answer                                           Qwen, DeepSeek, GLM, Kimi, MiniMax, ...
    <|channel>thought ... <channel|> answer                               Gemma
    <|channel|>analysis<|message|> ... <|end|> ... final<|message|> ...   gpt-oss (harmony)

Many templates open the reasoning themselves, so that the answer begins inside it. Where the vocabulary has a tag as one
token, only that token is the tag; what merely spells it is text. A tag where it makes no sense is text as well.

Nothing here depends on how the text is cut into pieces.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .decoding import IncrementalDecoder
from .tokenizer import Tokenizer


class Split(NamedTuple):
    """New text, by what it belongs to. The reasoning comes first."""

    reasoning: str
    answer: str

    def joined(self, later: Split) -> Split:
        """Both, one after the other."""
        return Split(self.reasoning + later.reasoning, self.answer + later.answer)


NOTHING = Split("", "")

_WRAPPERS = {"<answer>": "</answer>", "<response>": "</response>"}
"""Tags around an answer after reasoning (Hunyuan, ERNIE), which are not part of it."""

_HEAD_LIMIT = 100
"""Characters a message's head may have: a channel's name and a recipient. More is no head but an answer."""


class Style(ABC):
    """How one kind of model marks its reasoning. Holds the state of one answer."""

    tags: tuple[str, ...]
    first_tag = ""
    """The tag before which nothing of a prompt matters."""

    spelled = True
    """Whether the prompt's text may hold tags: those that are no tokens are looked for there."""

    @abstractmethod
    def begin(self, before: list[str]) -> None:
        """Take in how the prompt ends: text and tags since the last other control token."""

    @abstractmethod
    def text(self, text: str) -> Split:
        """More text."""

    @abstractmethod
    def tag(self, tag: str, shown: str) -> Split:
        """A tag; `shown` is what it is as text, should it make no sense here."""

    @abstractmethod
    def end(self) -> Split:
        """What is still held back."""

    @abstractmethod
    def written(self, opened: str, reasoning: str, answer: str) -> str:
        """What the model wrote, to be put behind `opened`, the prompt it was given."""


class Tagged(Style):
    """Reasoning between an opening and a closing tag, at the beginning of the answer."""

    def __init__(self, opening: str, closing: str, title: str = "", spelled: bool = True) -> None:
        """title: the line that the reasoning begins with, which is not part of it. spelled: see `Style`."""
        self.spelled = spelled
        self.tags = (opening, closing, *_WRAPPERS, *_WRAPPERS.values())
        self._opening, self._closing, self._title = opening, closing, title
        self._state = "start"  # then "title", "inside", "after", "answer"
        self._held = ""
        self._wrapper = ""

    def begin(self, before: list[str]) -> None:
        """The reasoning is open where the prompt's last tag opens it."""
        last = next((part for part in reversed(before) if part in (self._opening, self._closing)), "")
        if last == self._opening:
            after = "".join(before).rpartition(self._opening)[2]
            unread = len(after) < len(self._title) and self._title.startswith(after)
            self._state, self._held = ("title", after) if unread else ("inside", "")

    def text(self, text: str) -> Split:
        """White space around the reasoning is held back: it belongs to neither."""
        match self._state:
            case "start":
                self._held += text
                return self._answer(self._held) if self._held.strip() else NOTHING
            case "title":
                self._held += text
                if self._title.startswith(self._held) and self._held != self._title:
                    return NOTHING
                self._state, text, self._held = "inside", self._held.removeprefix(self._title), ""
                return Split(text, "")
            case "inside":
                return Split(text, "")
            case "after":
                text = text.lstrip()
                return self._answer(text) if text else NOTHING
        return self._answer(text)

    def _answer(self, text: str) -> Split:
        self._state = "answer"
        if self._wrapper:
            text = self._held + text
            kept = text.rstrip()
            self._held = text[len(kept) :]
            return Split("", kept)
        self._held = ""
        return Split("", text)

    def tag(self, tag: str, shown: str) -> Split:
        """A tag in its place changes the state."""
        if tag == self._opening and self._state == "start":
            self._state, self._held = "title" if self._title else "inside", ""
        elif tag == self._closing and self._state in ("start", "title", "inside"):
            rest, self._state, self._held = self._held if self._state == "title" else "", "after", ""
            return Split(rest, "")
        elif tag in _WRAPPERS and self._state == "after" and not self._wrapper:
            self._wrapper = _WRAPPERS[tag]
        elif self._wrapper and tag == self._wrapper and self._state in ("after", "answer"):
            self._wrapper, self._held, self._state = "", "", "after"
        else:
            return self.text(shown) if shown else NOTHING
        return NOTHING

    def end(self) -> Split:
        """A title that never came to its end was reasoning; white space alone is nobody's."""
        held, self._held = self._held, ""
        if self._state == "title":
            return Split(held, "")
        return Split("", held if self._state == "start" else "")

    def written(self, opened: str, reasoning: str, answer: str) -> str:
        """The closing tag is written once there is an answer."""
        head = "" if self._opening in opened[-len(self._opening + self._title) - 2 :] else self._opening + self._title
        return f"{head}{reasoning}{self._closing}\n\n{answer}" if answer else head + reasoning


class Harmony(Style):
    """Messages with a head that names their channel. What is not in the channel `final` is reasoning."""

    first_tag = "<|start|>"
    tags = (first_tag, "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>")

    def __init__(self) -> None:
        self._head: str | None = ""  # None: inside a message
        self._final = True

    def begin(self, before: list[str]) -> None:
        """A prompt ends in a head or, if an answer is continued, in a message."""
        for part in before:
            if part in self.tags:
                self.tag(part, "")
            else:
                self.text(part)
        if self._head is not None:
            self._head = self._head if "<|channel|>" in self._head else ""

    def text(self, text: str) -> Split:
        """Text of a head is held back, unless it is too long to be one."""
        if self._head is None:
            return self._body(text)
        self._head += text
        if len(self._head) > _HEAD_LIMIT:
            return self._give_up()
        return NOTHING

    def _body(self, text: str) -> Split:
        return Split("", text) if self._final else Split(text, "")

    def _give_up(self) -> Split:
        """It was no head: the model does not write in channels."""
        text, self._head, self._final = (self._head or "").replace("<|channel|>", ""), None, True
        return Split("", text)

    def tag(self, tag: str, shown: str) -> Split:
        """Tags that mean nothing here are not text either: they are control tokens everywhere."""
        head = self._head
        if tag == "<|message|>" and head is not None:
            channel = head.partition("<|channel|>")[2].split()
            self._final = not channel or channel[0] == "final"
            self._head = None
        elif tag == "<|channel|>":
            self._head = (head or "") + tag
        elif tag == "<|constrain|>" and head is not None:
            self._head = head + " "
        elif tag == "<|start|>":
            self._head = ""
        elif tag in ("<|end|>", "<|return|>", "<|call|>") and head is None:
            between, self._head = Split("", "") if self._final else Split("\n\n", ""), ""
            return between
        return NOTHING

    def end(self) -> Split:
        """A head without a message is what there is."""
        head = self._head
        if not head or "<|channel|>" in head or head == "assistant":
            return NOTHING
        return self._give_up()

    def written(self, opened: str, reasoning: str, answer: str) -> str:
        """The analysis, and the answer's message once there is one."""
        text = f"<|channel|>analysis<|message|>{reasoning.rstrip() if answer else reasoning}"
        return f"{text}<|end|><|start|>assistant<|channel|>final<|message|>{answer}" if answer else text


class _Scanner:
    """Finds tags in text that comes in pieces: those that the vocabulary has no token for."""

    def __init__(self, tags: Sequence[str]) -> None:
        self._tags = frozenset(tags)
        self._pattern = re.compile("(" + "|".join(map(re.escape, tags)) + ")" if tags else r"((?!))")
        self._heads = {tag[:n] for tag in tags for n in range(1, len(tag))}
        self._longest = max(map(len, tags), default=1) - 1
        self._held = ""

    def feed(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield (text, whether it is a tag). The beginning of what may become a tag is held back."""
        *found, rest = self._pattern.split(self._held + text)
        for part in found:
            if part:
                yield part, part in self._tags
        size = next((n for n in range(min(self._longest, len(rest)), 0, -1) if rest[-n:] in self._heads), 0)
        self._held = rest[len(rest) - size :]
        if len(rest) > size:
            yield rest[: len(rest) - size], False

    def end(self) -> str:
        """What is held back."""
        held, self._held = self._held, ""
        return held


class AnswerReader:
    """Turns the ids of one answer into reasoning and answer.

    style: None where nothing is to be told apart, as in raw completion. before: the prompt's ids, for how it ends.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], style: Style | None) -> None:
        """Raises UnsupportedModelError when the tokenizer's decoding rule is not known."""
        self._style = style
        # After ordinary text a leading space belongs to the answer; after a control token it is the tokenizer's own.
        self._decoder = IncrementalDecoder(tokenizer, continues=not tokenizer.is_special(int(before[-1])))
        tokens = {tag: tokenizer.control_id(tag) for tag in style.tags} if style is not None else {}
        self._tag_of = {number: tag for tag, number in tokens.items() if number is not None}
        self._scanner = _Scanner([tag for tag, number in tokens.items() if number is None])
        if style is not None:
            style.begin(list(self._end_of_prompt(tokenizer, before)))

    def _end_of_prompt(self, tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[str]:
        """The prompt's text and tags since the last other control token: what a person wrote is before that."""
        assert self._style is not None
        first, tag = len(ids), ""
        while first and not (tag and tag == self._style.first_tag):
            number = int(ids[first - 1])
            tag = self._tag_of.get(number, "")
            if not tag and tokenizer.is_special(number):
                break
            first -= 1
        decoder = IncrementalDecoder(tokenizer, continues=True)
        scanner = self._scanner if self._style.spelled else _Scanner(())
        for number in map(int, ids[first:]):
            text = decoder.push(number)
            if number in self._tag_of:
                yield scanner.end()
                yield self._tag_of[number]
            else:
                yield from (part for part, _ in scanner.feed(text))
        yield scanner.end()

    def push(self, number: int) -> Split:
        """What this id completes."""
        text = self._decoder.push(number)
        if self._style is None:
            return Split("", text)
        tag = self._tag_of.get(number)
        if tag is None:
            return self._scanned(text)
        return self._held().joined(self._style.tag(tag, text))

    def end(self) -> Split:
        """What was still held back. Ends the answer."""
        text = self._decoder.flush()
        if self._style is None:
            return Split("", text)
        return self._scanned(text).joined(self._held()).joined(self._style.end())

    def _scanned(self, text: str) -> Split:
        assert self._style is not None
        split = NOTHING
        for part, is_tag in self._scanner.feed(text):
            split = split.joined(self._style.tag(part, part) if is_tag else self._style.text(part))
        return split

    def _held(self) -> Split:
        held = self._scanner.end()
        return self._style.text(held) if held and self._style is not None else NOTHING


def style_of(template: str) -> Style:
    """The style of the model that a chat template belongs to, for a new answer."""
    if "<|channel|>" in template:
        return Harmony()
    if "<|channel>" in template:
        return Tagged("<|channel>", "<channel|>", "thought\n")
    return Tagged("<think>", "</think>", spelled="<think>" in template)
