"""Every key there is, once: its name in the settings, what it does, where, and what it is if nobody changed it.

Bindings of screens and widgets are made from this table (`bindings.bind`), and so are the help screen, the texts that
name a key, and `colibri-tui config keys`. Screens that mean the same by a key share its entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from colibri_tui.actions import COMMANDS


@dataclass(frozen=True, slots=True)
class Place:
    """Where keys mean something of their own.

    within: the places whose keys hold there too. letters: keys that write may be used: nothing is written there.
    """

    title: str
    within: tuple[str, ...] = ()
    letters: bool = False


_DIALOG: Final = ("everywhere", "dialogs")
_LIST: Final = (*_DIALOG, "lists")
PLACES: Final = {
    "chat": Place("In the chat", ("everywhere",)),
    "everywhere": Place("Everywhere"),
    "composer": Place("Writing", ("everywhere", "chat")),
    "transcript": Place("In the conversation (Tab)", ("everywhere", "chat")),
    "find": Place("Looking for words ({find})", ("everywhere", "chat")),
    "atlas": Place(
        "In the atlas ({atlas}, or Tab; letters only on the whole screen)", ("everywhere", "chat"), letters=True
    ),
    "path": Place(
        "In the way of a token ({path}, or Tab; letters only on the whole screen)", ("everywhere", "chat"), letters=True
    ),
    "dialogs": Place("In every window over the chat", ("everywhere",)),
    "lists": Place("In lists", _DIALOG),
    "conversations": Place("In conversations ({conversations})", _LIST),
    "profiles": Place("In profiles ({profile})", _LIST),
    "settings": Place("In settings and keys ({settings})", _LIST),
    "panes": Place("In panes ({panes})", _LIST, letters=True),
    "practice": Place("In practice", _LIST, letters=True),
    "replay": Place("In a replay", _DIALOG, letters=True),
    "lab": Place("In the lab ({lab})", _DIALOG, letters=True),
    "help": Place("In this page", _DIALOG, letters=True),
}


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that a key does.

    id: its name in the settings. keys: as Textual names them, with commas; '' for none. help: what it does; label: the
    same in the footer. place: of `PLACES`. state: keys of one place whose states differ never mean something at once.
    """

    id: str
    keys: str
    help: str
    place: str
    label: str = ""
    state: str = ""


_STATES: Final = {"stop": "answering", "back": "idle"}


def _commands() -> list[Key]:
    """What has no key of its own can be given one, unless it needs words."""
    return [
        Key(c.action, c.key, c.help, "everywhere" if c.action == "quit" else "chat", c.footer or c.title,
            _STATES.get(c.action, ""))
        for c in COMMANDS if not c.required
    ]  # fmt: skip


def _of(place: str, *rows: tuple[str, ...]) -> list[Key]:
    """Rows are a name, keys, what they do, and perhaps a label."""
    return [Key(f"{place}_{name}", keys, help, place, "".join(label)) for name, keys, help, *label in rows]


KEYS: Final[tuple[Key, ...]] = (
    *_commands(),
    Key("palette", "ctrl+p", "All of these by name, and colours and profiles", "everywhere", "Commands"),
    *(
        Key(id, keys, help, "composer", state="suggestions")
        for id, keys, help in (
            ("suggestion_take", "tab", "Take the suggestion"),
            ("suggestion_send", "enter", "Take the suggestion, and send it if it is whole"),
            ("suggestion_up", "up", "The suggestion before"),
            ("suggestion_down", "down", "The next suggestion"),
            ("suggestion_close", "escape", "No suggestions"),
        )
    ),
    *_of(
        "composer",
        ("submit", "enter", "Send"),
        ("newline", "ctrl+j,shift+enter,alt+enter", "New line"),
        ("up", "up", "Up, or previous message"),
        ("down", "down", "Down, or next message"),
        ("end", "end", "End of line, then follow"),
        ("cursor_line_end", "ctrl+e", "End of line"),
        ("page_up", "pageup", "Page up"),
        ("page_down", "pagedown", "Page down"),
        ("row_up", "shift+up", "Scroll up"),
        ("row_down", "shift+down", "Scroll down"),
        ("cursor_left", "left", "Cursor left"),
        ("cursor_right", "right", "Cursor right"),
        ("cursor_word_left", "ctrl+left", "Cursor word left"),
        ("cursor_word_right", "ctrl+right", "Cursor word right"),
        ("cursor_line_start", "home,ctrl+a", "Cursor line start"),
        ("cursor_word_left_select", "ctrl+shift+left", "Cursor left word select"),
        ("cursor_word_right_select", "ctrl+shift+right", "Cursor right word select"),
        ("cursor_line_start_select", "shift+home", "Cursor line start select"),
        ("cursor_line_end_select", "shift+end", "Cursor line end select"),
        ("cursor_left_select", "shift+left", "Cursor left select"),
        ("cursor_right_select", "shift+right", "Cursor right select"),
        ("delete_left", "backspace", "Delete character left"),
        ("delete_word_left", "ctrl+w,ctrl+backspace,alt+backspace", "Delete left to start of word"),
        ("delete_right", "delete,ctrl+d", "Delete character right"),
        ("delete_word_right", "alt+delete", "Delete right to start of word"),
        ("cut", "ctrl+x,super+x", "Cut"),
        ("copy", "ctrl+c,super+c", "Copy"),
        ("paste", "ctrl+v", "Paste"),
        ("delete_to_start_of_line", "ctrl+u,super+backspace", "Delete to line start"),
        ("delete_to_end_of_line", "ctrl+k", "Delete to line end"),
        ("delete_line", "ctrl+shift+k", "Delete line"),
        ("undo", "ctrl+z,super+z", "Undo"),
        ("redo", "ctrl+y,super+y", "Redo"),
    ),
    *_of(
        "transcript",
        ("up", "up", "Up"),
        ("down", "down", "Down"),
        ("page_up", "pageup", "Page up"),
        ("page_down", "pagedown", "Page down"),
        ("home", "home", "First message"),
        ("end", "end", "Follow the answer"),
    ),
    *_of(
        "find",
        ("before", "up,enter", "The place before"),
        ("next", "down", "The next place"),
        ("close", "escape", "Close"),
    ),
    *_of(
        "atlas",
        ("view", "t", "Heat/tiers"),
        ("order", "o", "Order"),
        ("left", "left,h", "Left"),
        ("right", "right,l", "Right"),
        ("up", "up,k", "Up"),
        ("down", "down,j", "Down"),
        ("page_up", "pageup", "Page up"),
        ("page_down", "pagedown", "Page down"),
        ("home", "home", "First expert"),
        ("end", "end", "Last expert"),
        ("choose", "enter", "Expert"),
        ("leave", "c", "No cursor"),
    ),
    *_of(
        "path",
        ("left", "left,h", "Token before"),
        ("right", "right,l", "Next token"),
        ("back", "shift+left", "Ten back"),
        ("on", "shift+right", "Ten on"),
        ("up", "up,k", "Up"),
        ("down", "down,j", "Down"),
        ("page_up", "pageup", "Page up"),
        ("page_down", "pagedown", "Page down"),
        ("slowest", "s", "Slowest"),
        ("newest", "c", "Newest"),
    ),
    Key("close", "escape", "Close, or leave what is being done there", "dialogs", "Close"),
    *(
        Key(f"list_{name}", keys, help, "lists")
        for name, keys, help in (
            ("up", "up", "Up"),
            ("down", "down", "Down"),
            ("page_up", "pageup", "Page up"),
            ("page_down", "pagedown", "Page down"),
            ("first", "home", "First"),
            ("last", "end", "Last"),
            ("choose", "enter", "Choose"),
        )
    ),
    *_of("conversations", ("rename", "ctrl+r", "Rename"), ("delete", "ctrl+d", "Delete")),
    *_of("profiles", ("freeze", "ctrl+f", "Freeze or thaw", "Freeze")),
    *_of(
        "settings",
        ("reset", "delete,backspace", "Back to the default", "Default"),
        ("add_key", "insert", "Another key beside the present one", "Add"),
    ),
    *_of("panes", ("switch", "space", "Show or hide")),
    *_of(
        "practice",
        ("begin", "ctrl+s", "Begin with the prompts that were pasted", "Begin"),
        ("measure", "m", "Measure now"),
        ("anew", "n", "Begin anew"),
        ("accept", "enter", "Turn pins on", "Go on"),
    ),
    *_of(
        "replay",
        ("play", "space", "Play or stop", "Play"),
        ("back", "left", "Back"),
        ("on", "right", "On"),
        ("ten_back", "shift+left", "Ten back"),
        ("ten_on", "shift+right", "Ten on"),
        ("first", "home", "First"),
        ("last", "end", "Last"),
        ("slower", "minus", "Slower"),
        ("faster", "plus", "Faster"),
        ("more_slots", "up", "Simulate a larger cache: a slot more in every layer", "More slots"),
        ("fewer_slots", "down", "Simulate a smaller cache", "Fewer"),
        ("ten_slots_more", "shift+up", "Ten slots more"),
        ("ten_slots_fewer", "shift+down", "Ten slots fewer"),
        ("policy", "p", "Simulate the next policy", "Policy"),
        ("policy_before", "P", "The policy before"),
        ("pins", "i", "With the present pins, or without", "Pins"),
        ("view", "t", "Heat, or where experts lie", "Heat"),
        ("order", "o", "Order"),
    ),
    *_of(
        "lab",
        ("memory", "1", "Memory"),
        ("learning", "2", "Learning"),
        ("matrix", "3", "A/B"),
        ("numbers", "n", "Numbers"),
        ("again", "r", "Again"),
    ),
    *_of("help", ("close", "q", "Close, too")),
)
KEY: Final = {key.id: key for key in KEYS}
