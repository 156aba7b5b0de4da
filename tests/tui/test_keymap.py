"""The table of keys, and what the settings may change of it."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import _character_to_key
from textual.screen import Screen
from textual.widget import Widget

from colibri_tui.app import ColibriApp
from colibri_tui.key_names import NONE, is_typed, key_name, parse_key
from colibri_tui.key_table import KEY, KEYS, PLACES
from colibri_tui.keymap import Keymap, KeyMistakeError, default_keys, holder, parse_entry, read_keymap
from colibri_tui.screens import chat, compare, lab, replay  # noqa: F401 - their classes are looked at

FIXED = {"help_quit"}
"""Ctrl+C in a window over the chat says how to quit."""


def ours(kind: type[DOMNode]) -> list[type[DOMNode]]:
    return [kind, *(found for below in kind.__subclasses__() for found in ours(below))]


def test_every_binding_of_ours_is_in_the_table():
    bound = set()
    for kind in {*ours(Screen), *ours(Widget), ColibriApp}:
        if kind.__module__.startswith("colibri_tui"):
            for binding in kind.__dict__.get("BINDINGS", ()):
                assert isinstance(binding, Binding)
                if binding.action not in FIXED:
                    assert binding.id in KEY, f"{kind.__name__}: {binding}"
                    assert binding.key == (KEY[binding.id].keys or NONE)
                    bound.add(binding.id)
    assert bound == set(KEY), "and everything in the table is bound somewhere"


def test_names_are_unique_and_can_be_written_without_quotes():
    assert len(KEY) == len(KEYS)
    assert all(set(id) <= {*string.ascii_lowercase, "_"} for id in KEY)
    assert all(key.place in PLACES and key.help for key in KEYS)


def test_defaults_are_keys_as_they_are_parsed():
    for key in KEYS:
        for name in default_keys(key.id):
            assert parse_key(name) == name
            assert parse_key(key_name(name)) == name, "what is read can be written"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Ctrl+N", "ctrl+n"), ("control + n", "ctrl+n"), ("Esc", "escape"), ("PgDn", "pagedown"), ("Return", "enter"),
        ("shift+ctrl+Up", "ctrl+shift+up"), ("?", "question_mark"), ("+", "plus"), ("ctrl++", "ctrl+plus"), ("T", "T"),
        ("shift+t", "T"), ("alt+T", "alt+t"), ("ctrl+T", "ctrl+t"), ("F13", "f13"), ("é", "é"), ("-", "minus"),
    ],
)  # fmt: skip
def test_keys_are_written_in_many_ways(text, key):
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "text", ["", "nope", "ctrl", "strg+x", "ctrl+", "f99", "ctrl+i", "Ctrl+M", "ctrl+[", "ab", "\x1b", "+x"]
)
def test_what_is_no_key(text):
    with pytest.raises(ValueError, match=r"there is no key|cannot be told from"):
        parse_key(text)


@given(st.sampled_from(string.printable.strip()))
def test_characters_have_textuals_names(character):
    assert parse_key(character) == _character_to_key(character)
    assert is_typed(parse_key(character))


@given(st.text(max_size=12), st.sampled_from(sorted(KEY)))
def test_no_entry_is_too_strange(text, id):
    keymap = read_keymap({id: text, text: id})
    for problem in keymap.problems:
        assert "\n" not in problem


@given(
    st.dictionaries(
        st.sampled_from(sorted(KEY)), st.sampled_from(["f10", "ctrl+b", "escape", "alt+x, f9", "none", "x"])
    )
)
def test_whatever_is_written_no_two_things_share_a_key_that_did_not_before(entries):
    keymap = read_keymap(entries)
    assert set(keymap.own) <= set(entries)
    for id in keymap.own:
        assert holder(id, keymap.keys(id), keymap) is None


def test_two_can_change_places_in_any_order():
    for entries in ({"side": "ctrl+n", "new": "ctrl+b"}, {"new": "ctrl+b", "side": "ctrl+n"}):
        keymap = read_keymap(entries)
        assert not keymap.problems
        assert (keymap.said("side"), keymap.said("new")) == ("Ctrl+N", "Ctrl+B")


def test_what_is_refused_takes_its_own_key_back():
    keymap = read_keymap({"panes": "ctrl+b", "side": "ctrl+q"})
    assert keymap.own == {}
    assert len(keymap.problems) == 2


def test_a_key_means_one_thing_where_it_holds():
    assert "taken" not in read_keymap({"atlas_view": "s", "path_slowest": "t"}).problems
    assert read_keymap({"atlas_view": "f9"}).problems, "F9 is a command's in the atlas, too"
    assert not read_keymap({"replay_play": "f9"}).problems, "but not in a replay"


def test_words():
    keymap = read_keymap({"stop": "ctrl+x", "composer_cut": "none", "more": "none"})
    assert (
        keymap.fill("{stop} stops, {more} goes on, {nothing of ours}")
        == "Ctrl+X stops, no key goes on, {nothing of ours}"
    )
    assert (keymap.aside("stop"), keymap.aside("more")) == (" (Ctrl+X)", "")


def test_an_entry_may_have_several_keys_or_none():
    assert parse_entry("side", "f10, Ctrl+Y , f10") == ("f10", "ctrl+y")
    assert parse_entry("side", " None ") == ()
    for value in ("", "f10,", 3, None, ["f10"]):
        with pytest.raises(KeyMistakeError):
            parse_entry("side", value)


def test_what_shares_a_default_key_is_told_to_textual_with_it():
    told = Keymap({"stop": ("f10",)}).for_textual()
    assert told == {"stop": "f10", "back": "escape"}
    assert Keymap({"side": ("ctrl+space",)}).for_textual() == {"side": "ctrl+space,ctrl+@"}


def test_the_page_about_keys_lists_them_all():
    page = (Path(__file__).parents[2] / "docs" / "keys.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for key, row in zip(sorted(KEYS, key=lambda key: list(PLACES).index(key.place)), rows, strict=True):
        keys = ", ".join(f"`{key_name(name)}`" for name in default_keys(key.id)) or "none"
        assert row == f"| `{key.id}` | {keys} | {key.help} |"
