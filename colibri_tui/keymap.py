"""Which key does what: the table of keys, and what the settings change of it.

    [keys]
    stop = "ctrl+x"              # another key
    newline = "enter, f9"        # several
    side = "none"                # none at all

A mistake is told in a line and changes nothing; the other entries hold.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from .key_names import NONE, is_typed, key_name, parse_key
from .key_table import KEY, KEYS, PLACES, Key

_NAMED: Final = re.compile(r"\{([a-z_]+)\}")
_FOCUS: Final = frozenset({"tab", "shift+tab"})
"""Keys that go from one part of a screen to the next. They are nobody else's, but for suggestions."""
_ALSO: Final = {"ctrl+space": "ctrl+@"}
"""What some terminals send for a key."""


class KeyMistakeError(ValueError):
    """What is wrong with an entry; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Keymap:
    """The keys in force. own: id -> keys, for those that the settings change; problems: a line for each mistake."""

    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def keys(self, id: str) -> tuple[str, ...]:
        """Return the keys that do this; none, if it was given none."""
        own = self.own.get(id)
        return default_keys(id) if own is None else own

    def said(self, id: str) -> str:
        """Return the first of them as one says it; 'no key' if there is none."""
        keys = self.keys(id)
        return key_name(keys[0]) if keys else "no key"

    def aside(self, id: str, words: str = "") -> str:
        """Return the same in brackets after a space, with some words; '' if there is no key."""
        return f" ({self.said(id)}{words})" if self.keys(id) else ""

    def fill(self, text: str) -> str:
        """Return a text with the keys in it: '{stop} stops' is 'Esc stops'."""
        return _NAMED.sub(lambda match: self.said(match[1]), text)

    def changed(self, changes: Mapping[str, tuple[str, ...]]) -> Keymap:
        """Return these keys with some others."""
        return Keymap({**self.own, **changes})

    def for_textual(self) -> dict[str, str]:
        """Return what `App.set_keymap` takes.

        It takes a changed key away from everything that has it by default, even from what only shares it (one key stops
        and goes back); so those are named with it.
        """
        told = dict(self.own)
        for id in self.own:
            told |= {
                key.id: self.keys(key.id)
                for key in KEYS
                if key.place == KEY[id].place and set(default_keys(key.id)) & set(default_keys(id))
            }
        return {id: ",".join(_sent(key) for key in keys) or NONE for id, keys in told.items()}


@cache
def default_keys(id: str) -> tuple[str, ...]:
    """Return the keys that do this when nobody has changed them."""
    return tuple(KEY[id].keys.split(",")) if KEY[id].keys else ()


def read_keymap(entries: Mapping[str, Any]) -> Keymap:
    """Return the keys in force under the table [keys] of the settings."""
    own: dict[str, tuple[str, ...]] = {}
    problems = []
    for id, value in entries.items():
        try:
            own[id] = parse_entry(id, value)
        except KeyMistakeError as error:
            problems.append(f"[keys] {error}")
    # What is given away frees its key, whichever entry is written first; what is refused takes its own key back.
    while refused := next(_refused(own), None):
        id, words = refused
        problems.append(f"[keys] {id}: {words}")
        del own[id]
    return Keymap(own, tuple(problems))


def _refused(own: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield entries whose key is something else's, the last ones first."""
    for id in reversed(list(own)):
        if words := clash(id, own[id], Keymap(own)):
            yield id, words


def parse_entry(id: str, value: Any) -> tuple[str, ...]:
    """Return the keys that an entry gives; none for 'none'. Raises KeyMistakeError."""
    if id not in KEY:
        near = difflib.get_close_matches(id, KEY, 1, 0)[0]
        raise KeyMistakeError(f"unknown name {id!r}; did you mean {near!r}? 'colibri-tui config keys' lists them")
    if not isinstance(value, str) or not value.strip():
        raise KeyMistakeError(f'{id}: {value!r} is no key; write "ctrl+x", or several: "ctrl+x, f9", or "none"')
    if value.strip().lower() == NONE:
        return ()
    return tuple(dict.fromkeys(_parsed(id, text) for text in value.split(",")))


def _parsed(id: str, text: str) -> str:
    try:
        key = parse_key(text)
    except ValueError as error:
        raise KeyMistakeError(f"{id}: {error}") from None
    check(KEY[id], key)
    return key


def parse_pressed(id: str, key: str) -> str:
    """Return a key that Textual heard, for this. Raises KeyMistakeError for one that cannot do it."""
    return _parsed(id, next((name for name, sent in _ALSO.items() if sent == key), key))


def check(key: Key, pressed: str) -> None:
    """Raise KeyMistakeError for a key that cannot do this, whoever has it now."""
    if is_typed(pressed) and not PLACES[key.place].letters:
        raise KeyMistakeError(
            f"{key.id}: {key_name(pressed)} writes; use an F key, or one with Ctrl or Alt, where text can be written"
        )
    if pressed in _FOCUS and key.state != "suggestions":
        raise KeyMistakeError(f"{key.id}: {key_name(pressed)} goes from one part of the screen to the next")


def clash(id: str, keys: tuple[str, ...], keymap: Keymap) -> str:
    """Return what else one of the keys does where this holds, and what to do, in words; '' if it does nothing else."""
    other = holder(id, keys, keymap)
    return f'{key_name(other[0])} is the key of {other[1]}, which needs another one first (or "none")' if other else ""


def holder(id: str, keys: tuple[str, ...], keymap: Keymap) -> tuple[str, str] | None:
    """Return one of the keys and what else it does where this holds; None if they do nothing else there.

    What shares a key by default goes on doing so: the composer's own keys below the commands', for one.
    """
    for other in KEYS:
        if other.id != id and _meet(KEY[id], other):
            for key in keys:
                shared = key in default_keys(id) and key in default_keys(other.id)
                if key in keymap.keys(other.id) and not shared:
                    return key, other.id
    return None


def _meet(one: Key, other: Key) -> bool:
    """Whether both can mean something at the same time."""
    if one.place == other.place:
        return one.state == other.state
    return other.place in PLACES[one.place].within or one.place in PLACES[other.place].within


def _sent(key: str) -> str:
    return f"{key},{_ALSO[key]}" if key in _ALSO else key
