"""Make text from models, files and pastes safe to put on a terminal.

A terminal obeys control characters, and bidirectional overrides make text read differently from what it says.
Both are replaced by visible stand-ins, never dropped: the reader sees that something was there.
"""

from __future__ import annotations

import re
from typing import Final

_REPLACEMENT: Final = "\ufffd"
_UNSAFE: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 without newline and tab, and DEL
    "\x80-\x9f"  # C1: one byte of CSI or OSC on some terminals
    "\u2028\u2029"  # line and paragraph separator
    "\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides and isolates
    "\ud800-\udfff"  # lone surrogates cannot be encoded at all
    "]"
)


def _stand_in(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: ␛ for escape, ␇ for bell
    if code == 0x7F:
        return "\u2421"
    if code in {0x2028, 0x2029}:
        return "\n"
    return _REPLACEMENT


def clean(text: str, *, tab_size: int | None = 4) -> str:
    r"""Return `text` with nothing in it that a terminal would obey.

    Line ends become ``\n``; C0 controls and DEL become their pictures (``␛``); C1 controls, bidirectional
    overrides and lone surrogates become U+FFFD. Tabs are expanded to stops of `tab_size` columns, or kept
    when it is None.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _UNSAFE.search(text):
        text = _UNSAFE.sub(_stand_in, text)
    if tab_size is not None and "\t" in text:
        text = text.expandtabs(tab_size)
    return text


class StreamCleaner:
    r"""`clean` for text that arrives in pieces: a ``\r\n`` that is cut in two is still one line end.

    Tabs are kept.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the part of the pieces so far that is certain and was not returned before."""
        text = self._held + text
        self._held = ""
        if text.endswith("\r"):
            self._held = "\r"
            text = text[:-1]
        return clean(text, tab_size=None)

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return clean(held, tab_size=None)
