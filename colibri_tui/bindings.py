"""Bindings made from the table of keys, and texts that name the keys in force."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

from textual.binding import Binding

from colibri_tui.key_names import NONE
from colibri_tui.key_table import KEY
from colibri_tui.keymap import Keymap

_AS_THEY_ARE: Final = Keymap()


@runtime_checkable
class Keyed(Protocol):
    """An application whose keys can be changed."""

    keymap: Keymap


def bind(id: str, action: str, *, show: bool = True, priority: bool = False) -> Binding:
    """Return the binding of an entry of the table. show: in the footer; priority: before what has the focus."""
    key = KEY[id]
    return Binding(key.keys or NONE, action, key.label or key.help, show=show, priority=priority, id=id)


def keymap_of(app: object) -> Keymap:
    """Return the keys in force."""
    return app.keymap if isinstance(app, Keyed) else _AS_THEY_ARE
