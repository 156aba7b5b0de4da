"""Everything a person can ask for, once: its words, its keys, its slash command.

Key bindings, the command palette, slash commands and the help screen are all made from `COMMANDS`, so that none of
them can tell another story. Every command is an action of the chat screen.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One thing to ask for.

    action: the chat screen's `action_<name>`. key: a Textual key, '' for none, before the settings change it. All are
    heard before what has the focus hears a key, unless `last`: then only what nobody else has a use for.
    footer: shown in the footer under this word. slash: names typed in the composer, the first one is shown.
    argument: what may follow the name, in capitals, in brackets when it may be left out; '' when nothing may.
    choices: words it may be. palette: whether the palette offers it.
    """

    action: str
    title: str
    help: str
    key: str = ""
    footer: str = ""
    slash: tuple[str, ...] = ()
    argument: str = ""
    choices: tuple[str, ...] = ()
    palette: bool = True
    last: bool = False

    @property
    def required(self) -> bool:
        """Whether the name alone means nothing."""
        return bool(self.argument) and not self.argument.startswith("[")

    def call(self, argument: str = "") -> str:
        """Return the action in Textual's notation, with what followed the name."""
        return f"{self.action}({argument!r})" if argument else self.action

    @property
    def usage(self) -> str:
        """The slash command as one would type it."""
        return f"{self.slash[0]} {self.argument}".rstrip() if self.slash else ""


COMMANDS = (
    Command(
        "stop",
        "Stop",
        "Stop the answer. Before its first word the prompt comes back",
        "escape",
        last=True,
        footer="Stop",
        palette=False,
    ),
    Command(
        "back",
        "Back",
        "While nothing runs: leave an edit, a marked message, a pane; back to the composer",
        "escape",
        last=True,
        footer="Back",
        palette=False,
    ),
    Command(
        "interrupt",
        "Interrupt",
        "Stop the answer; when idle, clear the draft; twice quits",
        "ctrl+c",
        palette=False,
    ),
    Command("help", "Help", "Keys and commands", "f1", footer="Help", slash=("/help",)),
    Command("atlas", "Atlas on the whole screen", "The expert map on the whole screen, and back", "f2", footer="Atlas"),
    Command("tiers", "Tiers on the whole screen", "Where the memory goes and where experts were found", "f3"),
    Command("speed", "Speed on the whole screen", "Tokens a second, and why a token was slow", "f4"),
    Command("keff", "Experts a token on the whole screen", "How many experts tokens used, layer by layer", "f5"),
    Command("swaps", "Swaps on the whole screen", "Pins that were exchanged, experts let go too early", "f6"),
    Command("expert", "Expert on the whole screen", "All about the expert under the atlas' cursor", "f7"),
    Command("path", "Way of a token on the whole screen", "A token's experts, layer by layer", "f12"),
    Command("panes", "Panes", "Choose which panes stand beside the chat", "alt+l", "Panes"),
    Command(
        "lab",
        "Lab",
        "What more memory would do, how this profile learned, what it is worth",
        "alt+a",
        slash=("/lab",),
    ),
    Command(
        "replay",
        "Replay a trace",
        "Play a file that --route-trace wrote through the atlas",
        slash=("/replay",),
        argument="FILE",
        palette=False,
    ),
    Command(
        "compare",
        "Compare two profiles",
        "Which experts this model uses in one profile more than in another",
        slash=("/compare",),
        argument="A B",
        palette=False,
    ),
    Command(
        "pane",
        "Show or hide a pane",
        "Show or hide one pane beside the chat",
        slash=("/pane",),
        argument="NAME",
        palette=False,
    ),
    Command("side", "Side column", "Show or hide the column beside the chat", "ctrl+b", "Side"),
    # Conversations
    Command("new", "New conversation", "Begin a new conversation", "ctrl+n", slash=("/new",)),
    Command(
        "reset",
        "Wipe the context",
        "Begin a new conversation; the engine's memory of this one is wiped, also on disk",
        slash=("/reset", ":reset"),
    ),
    Command(
        "conversations",
        "Conversations",
        "Find, resume, rename or delete conversations",
        "ctrl+s",
        "Conversations",
        ("/conversations",),
    ),
    Command("rename", "Rename this conversation", "Give it another title", slash=("/rename",), argument="[TITLE]"),
    Command("delete", "Delete this conversation", "Delete it for good; asks first", slash=("/delete",)),
    Command("branch", "Branch", "Go on in a copy; this conversation stays as it is", slash=("/branch",)),
    Command(
        "export",
        "Export this conversation",
        "Write it to a file in the present folder, as Markdown or JSON",
        slash=("/export",),
        argument="[md|json]",
        choices=("md", "json"),
    ),
    # The answer, and what was asked
    Command(
        "more",
        "Continue the answer",
        "Take up an answer that was cut or stopped",
        "alt+m",
        slash=("/more", ":more"),
    ),
    Command("regenerate", "Regenerate", "Answer the last prompt anew", "alt+r", slash=("/regen",)),
    Command(
        "edit",
        "Edit a prompt",
        "Write the last prompt anew, or the chosen one; again takes the one before",
        "alt+e",
        slash=("/edit",),
    ),
    Command("choose_before", "Choose the message before", "Mark a message, to copy or edit it", "alt+up"),
    Command("choose_after", "Choose the message after", "Mark the next message; after the last one, none", "alt+down"),
    Command(
        "copy",
        "Copy the answer",
        "Copy the last answer or the chosen message, the N-th piece of code, or all",
        "alt+y",
        slash=("/copy",),
        argument="[code [N]|all]",
        choices=("code", "all"),
    ),
    Command("copy_code", "Copy code", "Copy the newest piece of code; again, the one before", "alt+c"),
    # Finding
    Command(
        "find",
        "Find in this conversation",
        "Find words in this conversation",
        "ctrl+f",
        slash=("/find",),
        argument="[WORDS]",
    ),
    Command("history", "Find an earlier prompt", "Search in what you wrote before", "ctrl+r", slash=("/history",)),
    Command("editor", "Write in your editor", "Open the draft in $EDITOR", "ctrl+g", slash=("/editor",)),
    # What holds for this conversation
    Command("system", "System prompt", "Tell the model who it is", slash=("/system",), argument="[TEXT|off]"),
    Command(
        "temperature", "Temperature", "0 is always the likeliest word", slash=("/temperature",), argument="[T|auto]"
    ),
    Command(
        "nucleus", "Nucleus", "Share of the likeliest words to draw from", slash=("/nucleus",), argument="[P|auto]"
    ),
    Command("max_tokens", "Longest answer", "Tokens of an answer", slash=("/max-tokens",), argument="[N|auto]"),
    Command("seed", "Seed", "The same seed gives the same answer", slash=("/seed",), argument="[N|auto]"),
    # Model and profile
    Command("models", "Choose a model", "Choose another model", "ctrl+o", "Model", ("/model",)),
    Command(
        "reasoning",
        "Show or hide reasoning",
        "What models think before they answer: all of it, or a line",
        "alt+t",
        slash=("/reasoning",),
    ),
    Command("copy_reasoning", "Copy the last reasoning", "Copy what came before an answer", slash=("/copy-reasoning",)),
    Command(
        "profile",
        "Switch profile",
        "Learn into, and start from, another history of use",
        "alt+p",
        slash=("/profile",),
        argument="[NAME]",
    ),
    Command(
        "practice",
        "Practice",
        "Teach this profile with typical prompts, and measure whether pins help",
        slash=("/practice",),
    ),
    Command(
        "settings",
        "Settings",
        "Every option: what it is, where that comes from, and a way to change it",
        "f8",
        slash=("/settings",),
    ),
    Command("keys", "Keys", "What every key does, and a way to give it another one", slash=("/keys",)),
    Command("theme", "Theme", "Choose colours", "ctrl+t", slash=("/theme",), argument="[NAME]"),
    Command(
        "ram", "Memory budget", "GB for all that the engine holds; restarts it", slash=("/ram",), argument="[GB|auto]"
    ),
    Command(
        "cap", "Expert slots", "Experts in memory, a layer; restarts the engine", slash=("/cap",), argument="[N|auto]"
    ),
    Command(
        "context",
        "Context window",
        "Tokens of the longest conversation; restarts the engine",
        slash=("/context",),
        argument="[N|auto]",
    ),
    Command("plan", "Memory plan", "Show where the memory goes", "f9", slash=("/plan",)),
    Command("view", "Atlas: heat or tiers", "Switch the atlas between use and place", slash=("/view",)),
    Command("order", "Atlas: by number or by use", "Order the experts of each layer", slash=("/order",)),
    Command("restart", "Restart the engine", "Load the model again", slash=("/restart",)),
    Command(
        "restart_smaller",
        "Restart with less memory",
        "Load the model again within three quarters of the memory",
        slash=("/smaller",),
    ),
    Command("quit", "Quit", "End the program", "ctrl+q", slash=("/quit", ":q")),
)
BY_NAME = {name: command for command in COMMANDS for name in command.slash}
_NAME = re.compile(r"[/:][a-z]+(-[a-z]+)*")


class UnknownCommandError(ValueError):
    """A slash command that does not exist, or with an argument it does not take; the message is for the reader."""


def parse(text: str) -> tuple[Command, str] | None:
    """Return the command that a submitted text is, with its argument; None if it is a prompt.

    A prompt that begins with a slash (a path, say) is no command unless its first word looks like one; ` /new` with a
    space before it is a prompt. Colon commands are only those that exist: a prompt may well begin with a colon.
    """
    if "\n" in text:
        return None
    name, _, argument = text.rstrip().partition(" ")
    argument = argument.strip()
    command = BY_NAME.get(name)
    if command is not None:
        if argument and not command.argument:
            if name.startswith(":"):
                return None
            raise UnknownCommandError(f"{name} takes no argument")
        return command, argument
    if name.startswith("/") and _NAME.fullmatch(name):
        near = difflib.get_close_matches(name, BY_NAME, 1)
        hint = f"did you mean {near[0]}?" if near else "/help lists the commands"
        raise UnknownCommandError(f"there is no command {name}; {hint}")
    return None
