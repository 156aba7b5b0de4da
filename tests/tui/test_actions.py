from collections import Counter

import pytest
from textual.actions import parse as parse_action

from colibri_tui.actions import BY_NAME, COMMANDS, UnknownCommandError, parse
from colibri_tui.screens.chat import ChatScreen


def test_no_name_or_key_has_two_meanings():
    names = Counter(name for command in COMMANDS for name in command.slash)
    keys = Counter(command.key for command in COMMANDS if command.key)
    assert keys.pop("escape") == 2, "stop and back: see the test of check_action"
    assert max(names.values()) == max(keys.values()) == 1


def test_every_command_can_be_reached_and_explains_itself():
    for command in COMMANDS:
        assert command.key or command.slash
        assert command.title
        assert command.help


@pytest.mark.parametrize("name", BY_NAME)
def test_commands_are_recognised(name):
    assert parse(name) == (BY_NAME[name], "")
    assert parse(name + "  ") == (BY_NAME[name], "")


def test_every_command_is_an_action_of_the_screen():
    for command in COMMANDS:
        assert hasattr(ChatScreen, f"action_{command.action}")


def test_arguments():
    assert parse("/profile  coding ") == (BY_NAME["/profile"], "coding")
    with pytest.raises(UnknownCommandError, match="/new takes no argument"):
        parse("/new thing")


def test_an_argument_reaches_the_action_as_it_was_typed():
    name, arguments = parse_action(BY_NAME["/profile"].call('it\'s \\ "both"'))[1:]
    assert (name, arguments) == ("profile", ('it\'s \\ "both"',))
    assert BY_NAME["/new"].call() == "new"


@pytest.mark.parametrize(
    "text", ["hello", "/etc/passwd is what?", ":) hi", ":q is how vi quits", " /new", "/new\nthing", "/1", "//", ""]
)
def test_prompts_are_left_alone(text):
    assert parse(text) is None


def test_a_typo_is_answered_with_the_nearest_command():
    with pytest.raises(UnknownCommandError, match=r"no command /regne; did you mean /regen\?"):
        parse("/regne")
    with pytest.raises(UnknownCommandError, match="/help lists"):
        parse("/xyzzy")
