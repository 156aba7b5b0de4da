"""Writes conversations down as they happen, in a thread of its own: a slow disk never stops the keyboard.

Orders are carried out one after the other. What an order makes, a conversation or a message, is known by its row to
come, so that a reply can be updated before the row that holds it exists. A failure is reported when it begins,
not every second while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from colibri_tui.conversations import Conversations
from colibri_tui.database import StoreError

Result = TypeVar("Result")


class Row:
    """The row of a conversation or message that is being written: its number, or why there is none.

    A conversation keeps one for every message, so it takes as little memory as it can once the number is known.
    """

    __slots__ = ("_coming", "_number")

    def __init__(self, coming: Future[int] | int) -> None:
        self._number: int | None = None
        self._coming: Future[int] | None = None
        if isinstance(coming, int):
            self._number = coming
        else:
            self._coming = coming
            coming.add_done_callback(self._arrive)

    def _arrive(self, coming: Future[int]) -> None:
        if coming.exception() is None:
            self._number = coming.result()
            self._coming = None

    @property
    def number(self) -> int | None:
        """The number; None if it is not known yet, or never will be."""
        return self._number

    def result(self) -> int:
        """Wait for the number. Raises StoreError if there will be none."""
        coming = self._coming  # first: it goes when the number is there
        if self._number is not None:
            return self._number
        assert coming is not None
        return coming.result()


class Journal:
    """Orders to one store. `report` is called in the journal's thread with a line for the reader."""

    def __init__(self, open_store: Callable[[], Conversations], report: Callable[[str], object]) -> None:
        self._report = report
        self._failing = ""
        self._closed = False
        self._thread = ThreadPoolExecutor(1, "journal")
        self._store = self._order(open_store)
        self._order(self._tell_notices)

    def ask(self, question: Callable[[Conversations], Result]) -> Future[Result]:
        """Put a question to the store after everything ordered so far; a StoreError is the asker's."""
        return self._submit(lambda: question(self._store.result()))

    def create(self, model: str, profile: str, settings: str = "") -> Row:
        """Begin a conversation, and be in it."""

        def create() -> int:
            number = self._store.result().create(model, profile, settings=settings)
            self._store.result().hold(number)
            return number

        return Row(self._order(create))

    def leave(self) -> None:
        """Be in no conversation: another copy of the program may go on with it."""
        self._order(lambda: self._store.result().hold(None))

    def configure(self, conversation: Row, settings: str) -> None:
        """Keep what a person set for a conversation."""
        self._order(lambda: self._store.result().configure(conversation.result(), settings))

    def add(self, conversation: Row, role: str, content: str, status: str = "done", *, attachments: str = "") -> Row:
        """Append a message."""
        return Row(
            self._order(
                lambda: self._store.result().add(conversation.result(), role, content, status, attachments=attachments)
            )
        )

    def update(self, message: Row, **changes: Any) -> None:
        """Change a message; see `Conversations.update`."""
        self._order(lambda: self._store.result().update(message.result(), **changes))

    def set_draft(self, conversation: Row | None, text: str) -> None:
        """Keep an unsent prompt."""
        self._order(
            lambda: self._store.result().set_draft(None if conversation is None else conversation.result(), text)
        )

    def close(self) -> None:
        """Carry out what was ordered, then close the store. What is ordered afterwards fails with a StoreError."""
        self._closed = True
        self._thread.shutdown(wait=True)
        if self._store.exception() is None:
            self._store.result().close()

    def _tell_notices(self) -> None:
        for notice in self._store.result().notices:
            self._report(notice)

    def _order(self, work: Callable[[], Result]) -> Future[Result]:
        def carry_out() -> Result:
            try:
                result = work()
            except StoreError as error:
                if str(error) != self._failing:
                    self._failing = str(error)
                    self._report(f"conversations are not being saved: {error}")
                raise
            self._failing = ""
            return result

        return self._submit(carry_out)

    def _submit(self, work: Callable[[], Result]) -> Future[Result]:
        if self._closed:  # a task of the screen may end a moment after it
            late: Future[Result] = Future()
            late.set_exception(StoreError("the conversations are closed: the program ends"))
            return late
        return self._thread.submit(work)


def known(row: int) -> Row:
    """Return a row that exists already, as orders take it."""
    return Row(row)
