"""A list to choose from, with keys that can be changed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import OptionList

from colibri_tui.bindings import bind


class ChoiceList(OptionList, inherit_bindings=False):
    """Textual's list of options; its keys are ours."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("list_up", "cursor_up", show=False),
        bind("list_down", "cursor_down", show=False),
        bind("list_page_up", "page_up", show=False),
        bind("list_page_down", "page_down", show=False),
        bind("list_first", "first", show=False),
        bind("list_last", "last", show=False),
        bind("list_choose", "select", show=False),
    ]
