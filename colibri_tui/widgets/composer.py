"""The prompt: where a message is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.message import Message
from textual.reactive import var
from textual.timer import Timer
from textual.widgets import TextArea

from colibri_tui.bindings import bind
from colibri_tui.completion import Arguments, Suggestion, no_arguments, suggest, wanted_path
from colibri_tui.render.clean import clean
from colibri_tui.widgets.transcript import Scroll

DEBOUNCE: Final = 0.5
"""Seconds after a change until `DraftChanged` is posted."""

_OURS: Final = frozenset(
    {
        "cursor_up",
        "cursor_up(True)",
        "cursor_down",
        "cursor_down(True)",
        "cursor_line_end",
        "cursor_page_up",
        "cursor_page_down",
        "select_line",
        "select_all",
    }
)
"""Actions of TextArea whose keys mean something else here, or belong to the application (F6, F7)."""


def _editing() -> Iterator[Binding]:
    """Yield TextArea's other bindings, which can be changed as well."""
    for binding in TextArea.BINDINGS:
        if isinstance(binding, Binding) and binding.action not in _OURS:
            name = binding.action.replace("(True)", "_select").removesuffix("_or_delete_line")
            yield bind(f"composer_{name}", binding.action, show=False)


class Composer(TextArea, inherit_bindings=False):
    """A text area that sends.

    Nothing typed into it is ever lost: not by history, not by sending, not by stopping.
    """

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")
    BINDING_GROUP_TITLE = "Prompt"
    HELP = """
    Write a message; **Enter** sends it, also while an answer is running.

    - **Shift+Enter**, **Alt+Enter** or **Ctrl+J** begin a new line; a paste of many lines stays one message
    - **Up** on the first line and **Down** on the last walk through what you sent before; your draft comes
      back
    - **PgUp**, **PgDn**, **Shift+Up**, **Shift+Down** scroll the conversation; **End** at the end of the text
      follows it
    - **/** at the beginning offers commands, **@** files to send along: **Tab** takes one, **Esc** none
    - **Ctrl+Z** undoes, also sending and clearing
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("suggestion_take", "suggestion_take", show=False),
        bind("suggestion_send", "suggestion_send", show=False),
        bind("suggestion_up", "suggestion_move(-1)", show=False),
        bind("suggestion_down", "suggestion_move(1)", show=False),
        bind("suggestion_close", "suggestion_close", show=False),
        bind("composer_submit", "submit"),
        bind("composer_newline", "newline", show=False),
        bind("composer_up", "up", show=False),
        bind("composer_down", "down", show=False),
        bind("composer_end", "end", show=False),
        bind("composer_cursor_line_end", "cursor_line_end", show=False),
        bind("composer_page_up", "scroll_messages('page_up')", show=False),
        bind("composer_page_down", "scroll_messages('page_down')", show=False),
        bind("composer_row_up", "scroll_messages('row_up')", show=False),
        bind("composer_row_down", "scroll_messages('row_down')", show=False),
        *_editing(),
    ]

    busy: var[bool] = var(False, toggle_class="-busy")
    """Whether an answer is running: only a matter of colour, typing and sending stay as they are."""

    class Submitted(Message):
        """A message was sent; the composer is empty now."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class DraftChanged(Message):
        """What should be kept if the program ended now has changed."""

        def __init__(self, draft: str) -> None:
            super().__init__()
            self.draft = draft

    class Suggested(Message):
        """There are other suggestions, or another one of them is chosen."""

        def __init__(self, suggestions: Sequence[Suggestion], chosen: int) -> None:
            super().__init__()
            self.suggestions, self.chosen = suggestions, chosen

    class PathsWanted(Message):
        """A path is being typed: `offer` takes what files there are."""

        def __init__(self, line: str, partial: str) -> None:
            super().__init__()
            self.line, self.partial = line, partial

    class ScrollRequested(Message):
        """A key asked to scroll the conversation; see `Transcript.scroll_messages`."""

        def __init__(self, how: Scroll) -> None:
            super().__init__()
            self.how = how

    def __init__(self, *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(id=id, placeholder=placeholder, highlight_cursor_line=False)
        self.cursor_blink = False  # an idle screen stays idle
        self._history: list[str] = []
        self._edited: dict[int, str] = {}  # entries as they were left while walking, by number
        self._position = 0  # in the history; its length means the draft
        self._timer: Timer | None = None
        self._posted = ""
        self.arguments: Arguments = no_arguments
        self._suggestions: Sequence[Suggestion] = ()
        self._chosen = 0
        self._looked = ""  # the line, up to the cursor, that the suggestions are for

    # The text

    @property
    def draft(self) -> str:
        """What was written and not sent: the text, or what waits behind it while walking through the history."""
        if self._position < len(self._history) and self.text == self._history[self._position]:
            return self._edited.get(len(self._history), "")
        return self.text

    @draft.setter
    def draft(self, text: str) -> None:
        self._edited.clear()
        self._position = len(self._history)
        self._put(clean(text, tab_size=None))  # it may come from a file, an editor or an older version

    def put_back(self, text: str) -> bool:
        """Return a message to where it was written, unless something else is written there.

        Say whether that was done.
        """
        if self.text.strip():
            return False
        self.draft = text
        return True

    def set_history(self, history: Sequence[str]) -> None:
        """Set what was sent before, the newest last. The draft stays."""
        draft = self.draft
        walking = self._position < len(self._history)
        self._history = [clean(text, tab_size=None) for text in history]
        self._edited.clear()
        self._position = len(self._history)
        if walking:
            self._put(draft)

    # Keys

    async def on_key(self, event: Key) -> None:
        """Run our own bindings here, in the order of the keys.

        Textual looks for bindings only after a key has bubbled up to the application, and letters typed meanwhile
        overtake it: whoever corrects a slip, or types on after Enter, while the screen is busy would get another text.
        """
        if event.is_printable:
            return
        self._look()
        active = self.screen.active_bindings.get(event.key)
        if active is not None and active.node is self and await self.app.run_action(active.binding.action, self):
            event.stop()
            event.prevent_default()
        elif event.key == "enter":  # bound elsewhere, or not at all: not a new line by itself
            event.prevent_default()

    def on_paste(self, event: Paste) -> None:
        """Insert a paste as one piece, without what a terminal would obey."""
        event.prevent_default()
        event.stop()
        start, end = self.selection
        result = self.replace(clean(event.text, tab_size=None), start, end, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def action_submit(self) -> None:
        """Send the text, unless there is none."""
        text = self.text
        if not text.strip():
            return
        if self._history[-1:] != [text]:
            self._history.append(text)
        self.draft = ""
        self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        """Begin a new line."""
        self.replace("\n", *self.selection, maintain_selection_offset=False)

    def action_up(self) -> None:
        """Move up, from the first line on to the message sent before."""
        if self.navigator.is_first_wrapped_line(self.cursor_location):
            self._walk(-1)
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """Move down, from the last line on to the message sent after it, and at last to the draft."""
        if self.navigator.is_last_wrapped_line(self.cursor_location):
            self._walk(1)
        else:
            self.action_cursor_down()

    def action_end(self) -> None:
        """Move to the end of the line; at the end of the text, follow the answer."""
        if self.cursor_at_end_of_text:
            self.action_scroll_messages("end")
        else:
            self.action_cursor_line_end()

    def action_scroll_messages(self, how: Scroll) -> None:
        """Ask for the conversation to be scrolled."""
        self.post_message(self.ScrollRequested(how))

    # Suggestions

    def offer(self, line: str, suggestions: Sequence[Suggestion]) -> None:
        """Take the suggestions for a line, unless something else is written there by now."""
        if line == self._line and line == self._looked:
            self._suggest(suggestions)

    def accept(self, number: int) -> None:
        """Write a suggestion into the text."""
        if number < len(self._suggestions):
            suggestion = self._suggestions[number]
            row, column = self.cursor_location
            result = self.replace(suggestion.text, (row, suggestion.start), (row, column))
            self.move_cursor(result.end_location)
            self._look()

    @property
    def _line(self) -> str:
        """The line that is written in, up to the cursor."""
        row, column = self.cursor_location
        return self.document[row][:column]

    def _look(self) -> None:
        """Look for suggestions if something else is written now."""
        line = self._line
        if line == self._looked:
            return
        self._looked = line
        one_line = self.document.line_count == 1 and self.cursor_at_end_of_text
        self._suggest(suggest(line, self.arguments) if one_line else ())
        if not self._suggestions and (partial := wanted_path(line)) is not None:
            self.post_message(self.PathsWanted(line, partial))

    def _suggest(self, suggestions: Sequence[Suggestion], chosen: int = 0) -> None:
        if suggestions or self._suggestions:
            self._suggestions, self._chosen = suggestions, chosen
            self.post_message(self.Suggested(suggestions, chosen))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys mean the suggestions while there are any; one that is written out already is sent like any text."""
        if not action.startswith("suggestion_"):
            return True
        if not self._suggestions:
            return False
        suggestion = self._suggestions[self._chosen]
        return action != "suggestion_send" or suggestion.start + len(suggestion.text.rstrip()) != len(self._line)

    def action_suggestion_take(self) -> None:
        """Write the chosen suggestion."""
        self.accept(self._chosen)

    def action_suggestion_send(self) -> None:
        """Write it, and send it if nothing can follow."""
        final = self._suggestions[self._chosen].final
        self.accept(self._chosen)
        if final:
            self.action_submit()

    def action_suggestion_move(self, step: int) -> None:
        """Choose another one."""
        self._suggest(self._suggestions, (self._chosen + step) % len(self._suggestions))

    def action_suggestion_close(self) -> None:
        """Offer nothing."""
        self._suggest(())

    # Inside

    def on_text_area_changed(self) -> None:
        """Let the draft be kept, but not after every key; look for what could be completed."""
        self._look()
        if self._timer is None:
            self._timer = self.set_timer(DEBOUNCE, self._post_draft)

    def on_text_area_selection_changed(self) -> None:
        """The cursor may have left what was suggested for."""
        if self._suggestions:
            self._look()

    def _post_draft(self) -> None:
        self._timer = None
        draft = self.draft
        if draft != self._posted:
            self._posted = draft
            self.post_message(self.DraftChanged(draft))

    def _walk(self, step: int) -> None:
        position = self._position + step
        if not 0 <= position <= len(self._history):
            return
        self._edited[self._position] = self.text
        self._position = position
        kept = "" if position == len(self._history) else self._history[position]
        self._put(self._edited.get(position, kept))
        if step < 0:  # so that one more Up goes further
            self.move_cursor((0, len(self.document[0])))

    def _put(self, text: str) -> None:
        """Replace the text in a way that can be undone."""
        if text != self.text:
            self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)
        self._looked = self._line  # nobody typed it, so nothing is offered
        self._suggest(())
