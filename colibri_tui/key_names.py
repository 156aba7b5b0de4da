"""Keys by name: as Textual calls them, as settings write them, as one says them.

'ctrl+n', 'Ctrl+N' and 'control+n' are the same key; 'Esc' is 'escape' and '?' is 'question_mark'.
"""

from __future__ import annotations

import re
import string
import unicodedata
from typing import Final

NONE: Final = "none"
"""In place of a key: there is none. No key has this name, so a binding to it is never run."""

_MODIFIERS: Final = ("alt", "ctrl", "hyper", "meta", "shift", "super")
_HELD: Final = {"control": "ctrl", "option": "alt", "cmd": "super", "command": "super"}
_SPECIAL: Final = {
    "escape": "Esc", "enter": "Enter", "tab": "Tab", "space": "Space", "backspace": "Backspace", "delete": "Del",
    "insert": "Ins", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn", "up": "Up", "down": "Down",
    "left": "Left", "right": "Right", **{f"f{number}": f"F{number}" for number in range(1, 25)},
}  # fmt: skip
_OTHER: Final = {"return": "enter", "page_up": "pageup", "page_down": "pagedown", "bksp": "backspace"}
_SHORTER: Final = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""Textual's own names for some characters."""
_AS_ANOTHER: Final = {"ctrl+i": "Tab", "ctrl+m": "Enter", "ctrl+left_square_bracket": "Esc"}
"""Keys that most terminals send as another one."""


def _character(character: str) -> str:
    name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    return _SHORTER.get(name, name)


_PUNCTUATION: Final = {_character(character): character for character in string.punctuation}
_NAMED: Final = {
    **{said.lower(): name for name, said in _SPECIAL.items()}, **_OTHER,
    **{name: name for name in (*_SPECIAL, *_PUNCTUATION)}, **{sign: name for name, sign in _PUNCTUATION.items()},
}  # fmt: skip


def parse_key(text: str) -> str:
    """Return a key as Textual names it. Raises ValueError, with the reason, for one that there is not."""
    *held, last = re.sub(r"(^|\+)\+$", r"\1plus", text.strip()).split("+")  # the last + may be the key itself
    modifiers = {_HELD.get(word, word) for word in (part.strip().lower() for part in held)}
    if unknown := sorted(modifiers - set(_MODIFIERS)):
        raise ValueError(f"there is no key {text.strip()!r}: {unknown[0]!r} is not Ctrl, Alt, Shift or Super")
    last = last.strip()
    base = _NAMED.get(last.lower(), last)
    if base not in _NAMED:
        if len(base) != 1 or not base.isprintable() or base.isspace():
            raise ValueError(f"there is no key {text.strip()!r}")
        if modifiers == {"shift"}:  # that is the capital; beside other keys a capital is how a letter is said
            base, modifiers = base.upper(), set()
        elif modifiers:
            base = base.lower()
    key = "+".join([*sorted(modifiers), base])
    if key in _AS_ANOTHER:
        raise ValueError(f"{key_name(key)} cannot be told from {_AS_ANOTHER[key]} in most terminals")
    return key


def is_typed(key: str) -> bool:
    """Whether a key writes something where text can be written."""
    return key == "space" or key in _PUNCTUATION or (len(key) == 1 and key.isprintable())


def key_name(key: str) -> str:
    """Return a Textual key as one says it: 'ctrl+n' is Ctrl+N, 'escape' is Esc."""
    *held, last = key.split("+")
    said = last if len(last) == 1 and not held else last.capitalize()
    said = _SPECIAL.get(last) or _PUNCTUATION.get(last) or said
    return "+".join([*(part.capitalize() for part in held), said])
