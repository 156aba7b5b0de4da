"""Conversations on disk, in one SQLite file that several running copies of the program may share.

A reply is stored while it grows, several times a second, so that a crash costs no more than the last
interval. Whose reply is still growing is known by a lock: every open store holds one on a small file of its own
(`conversations.db.<token>.running`), and the system releases it however the program ends. A growing message
whose writer's lock is free was cut off, and becomes `interrupted` when a store is next opened; a reply that
another running copy is writing is left alone. This needs no process numbers, which are reused and mean
nothing in another container.
"""

from __future__ import annotations

import builtins
import json
import secrets
import sqlite3
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.files import FileLock, reason

from .database import Database, StoreError
from .excerpts import excerpt, title_of
from .thought import NO_THOUGHT, Thought

GROWING = "growing"
INTERRUPTED = "interrupted"

_CUT_OFF = "the program ended while this was being written"

_MIGRATIONS = (
    (
        """CREATE TABLE conversations (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL, model TEXT NOT NULL, profile TEXT NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL)""",
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            role TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL DEFAULT '',
            stats TEXT, writer TEXT, created REAL NOT NULL)""",
        "CREATE INDEX messages_of_conversation ON messages (conversation, id)",
        "CREATE INDEX messages_growing ON messages (writer) WHERE writer IS NOT NULL",
        """CREATE TABLE drafts (
            conversation INTEGER UNIQUE REFERENCES conversations (id) ON DELETE CASCADE,
            content TEXT NOT NULL)""",
    ),
    (
        "ALTER TABLE conversations ADD COLUMN settings TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE messages ADD COLUMN attachments TEXT NOT NULL DEFAULT ''",
    ),
    (
        "ALTER TABLE messages ADD COLUMN reasoning TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE messages ADD COLUMN reasoning_s REAL NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0",
        # Reasoning used to stand in the answer.
        f"""UPDATE messages SET reasoning = substr(content, 8, instr(content, '</think>') - 8),
            content = ltrim(substr(content, instr(content, '</think>') + 8), char(10) || ' ')
            WHERE role = 'assistant' AND content LIKE '<think>%</think>%' AND status <> '{GROWING}'""",
    ),
    ("ALTER TABLE conversations ADD COLUMN holder TEXT",),
)


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """A conversation in a list. Times are seconds since 1970; `messages` counts them.

    settings: see `chat_settings.load`. found: a line of a message around what was searched for, '' if the title has it.
    """

    id: int
    title: str
    model: str
    profile: str
    created: float
    updated: float
    messages: int
    settings: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message. `status` is 'growing', 'interrupted', or what the writer chose, 'done' by default.

    note: a line for the reader, such as why a reply was cut; '' if there is none. stats: figures of the turn.
    attachments: see `attachments.load`.
    """

    id: int
    role: str
    content: str
    status: str
    note: str
    stats: dict[str, Any] | None
    created: float
    attachments: str = ""
    thought: Thought = NO_THOUGHT


class Conversations:
    """The store. All methods may be called from any thread, one at a time, and raise StoreError.

    notices: what a person should know about the opening, one line each.
    """

    def __init__(self, path: Path) -> None:
        """Open the database at `path`, making it if there is none; a damaged one is moved aside.

        Raises StoreError when it cannot be opened, or belongs to a newer version or another program.
        """
        self.path = path
        self._database = Database(path, _MIGRATIONS)
        self.notices = self._database.notices
        self._token = secrets.token_hex(8)
        self._running = FileLock(self._running_path(self._token))
        try:
            # Inside a transaction, so that no copy that opens now takes the new lock file for a dead one's.
            with self._database.writing() as database:
                self._running.acquire()
                self._end_interrupted(database)
        except OSError as error:
            self._database.close()
            raise StoreError(f"{self._running.path}: cannot be locked ({reason(error)})") from error
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Close the store; messages still growing will be found interrupted. May be called twice."""
        self._database.close()
        self._running.release()
        self._running.path.unlink(missing_ok=True)

    def create(self, model: str, profile: str, title: str = "", settings: str = "") -> int:
        """Begin a conversation and return its id; without a title it takes one from its first prompt."""
        now = time.time()
        with self._database.writing() as database:
            cursor = database.execute(
                """INSERT INTO conversations (title, model, profile, created, updated, settings)
                   VALUES (?, ?, ?, ?, ?, ?)""",
                (title_of(title), _text(model), _text(profile), now, now, _text(settings)),
            )
        return _new_id(cursor)

    def branch(self, conversation: int) -> int:
        """Begin a copy of a conversation, with everything that was said in it, and return its id."""
        now = time.time()
        with self._database.writing() as database:
            cursor = database.execute(
                """INSERT INTO conversations (title, model, profile, created, updated, settings)
                   SELECT title, model, profile, ?, ?, settings FROM conversations WHERE id = ?""",
                (now, now, conversation),
            )
            _must_exist(cursor, f"conversation {conversation}")
            database.execute(
                """INSERT INTO messages (conversation, role, content, status, note, stats, created, attachments,
                       reasoning, reasoning_s, reasoning_tokens)
                   SELECT ?, role, content, status, note, stats, created, attachments,
                       reasoning, reasoning_s, reasoning_tokens FROM messages
                   WHERE conversation = ? AND writer IS NULL ORDER BY id""",
                (cursor.lastrowid, conversation),
            )
        return _new_id(cursor)

    def configure(self, conversation: int, settings: str) -> None:
        """Keep what a person set for a conversation."""
        with self._database.writing() as database:
            cursor = database.execute(
                "UPDATE conversations SET settings = ? WHERE id = ?", (_text(settings), conversation)
            )
            _must_exist(cursor, f"conversation {conversation}")

    def hold(self, conversation: int | None) -> bool:
        """Say which conversation this copy of the program is in, None: in none; False if another copy is in it."""
        with self._database.writing(durable=False) as database:
            found = database.execute("SELECT holder FROM conversations WHERE id = ?", (conversation,)).fetchone()
            holder = found[0] if found else None
            if holder not in (None, self._token) and self._is_running(holder):
                return False
            database.execute("UPDATE conversations SET holder = NULL WHERE holder = ?", (self._token,))
            database.execute("UPDATE conversations SET holder = ? WHERE id = ?", (self._token, conversation))
        return True

    def get(self, conversation: int) -> ConversationSummary | None:
        """Return one conversation, None if it does not exist."""
        found = self._summaries("id = :conversation", 1, conversation=conversation)
        return found[0] if found else None

    def list(self, limit: int = 200, search: str = "") -> builtins.list[ConversationSummary]:
        """Return conversations, the last used first, that contain `search` in their title or messages."""
        words = _text(search).casefold()
        found = self._summaries(
            """:search = '' OR instr(fold(title), :search) OR EXISTS (SELECT 1 FROM messages
                WHERE conversation = conversations.id AND instr(fold(content), :search))""",
            limit,
            search=words,
        )
        if not words:
            return found
        return [
            replace(one, found="" if words in one.title.casefold() else self._excerpt(one.id, words)) for one in found
        ]

    def _excerpt(self, conversation: int, words: str) -> str:
        rows = self._database.rows(
            """SELECT content FROM messages WHERE conversation = :conversation AND instr(fold(content), :search)
               ORDER BY id LIMIT 1""",
            conversation=conversation,
            search=words,
        )
        return excerpt(rows[0][0], words) if rows else ""

    def latest(self, model: str | None = None) -> ConversationSummary | None:
        """Return the conversation used last, of one model or of any; None if there is none."""
        found = self._summaries(":model IS NULL OR model = :model", 1, model=model)
        return found[0] if found else None

    def rename(self, conversation: int, title: str) -> None:
        """Give a conversation another title; one line, cut to 60 characters."""
        title = title_of(title)
        if not title:
            raise StoreError("a conversation needs a title")
        with self._database.writing() as database:
            cursor = database.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, conversation))
            _must_exist(cursor, f"conversation {conversation}")

    def delete(self, conversation: int) -> None:
        """Remove a conversation with all that belongs to it, if it is still there."""
        with self._database.writing() as database:
            database.execute("DELETE FROM conversations WHERE id = ?", (conversation,))

    def messages(self, conversation: int) -> builtins.list[StoredMessage]:
        """Return the messages of a conversation in order; none if it does not exist."""
        rows = self._database.rows(
            """SELECT id, role, content, status, note, stats, created, attachments, reasoning, reasoning_s,
               reasoning_tokens FROM messages WHERE conversation = :conversation ORDER BY id""",
            conversation=conversation,
        )
        return [
            StoredMessage(message, role, content, status, note, _stats(stats), created, attachments, Thought(*thought))
            for message, role, content, status, note, stats, created, attachments, *thought in rows
        ]

    def add(self, conversation: int, role: str, content: str, status: str = "done", *, attachments: str = "") -> int:
        """Append a message and return its id; a reply that will be updated starts as 'growing'."""
        now = time.time()
        writer = self._token if status == GROWING else None
        with self._database.writing() as database:
            used = database.execute("UPDATE conversations SET updated = ? WHERE id = ?", (now, conversation))
            _must_exist(used, f"conversation {conversation}")
            cursor = database.execute(
                """INSERT INTO messages (conversation, role, content, status, writer, created, attachments)
                   VALUES (?, ?, ?, ?, ?, ?, ?)""",
                (conversation, _text(role), _text(content), status, writer, now, _text(attachments)),
            )
            if role == "user":
                database.execute(
                    "UPDATE conversations SET title = ? WHERE id = ? AND title = ''",
                    (title_of(content), conversation),
                )
        return _new_id(cursor)

    def update(
        self,
        message: int,
        *,
        content: str | None = None,
        status: str | None = None,
        note: str | None = None,
        stats: dict[str, Any] | None = None,
        thought: Thought | None = None,
    ) -> None:
        """Change what is given of a message. Cheap while it grows; forced to disk when it has ended."""
        changes: dict[str, str | float | None] = {}
        if content is not None:
            changes["content"] = _text(content)
        if status is not None:
            changes["status"] = status
            changes["writer"] = self._token if status == GROWING else None
        if note is not None:
            changes["note"] = _text(note)
        if stats is not None:
            changes["stats"] = json.dumps(stats)
        if thought:
            changes["reasoning"] = _text(thought.text)
            changes["reasoning_s"], changes["reasoning_tokens"] = thought.seconds, thought.tokens
        if not changes:
            return
        columns = ", ".join(f"{column} = ?" for column in changes)
        with self._database.writing(durable=status not in (None, GROWING)) as database:
            cursor = database.execute(f"UPDATE messages SET {columns} WHERE id = ?", (*changes.values(), message))
            _must_exist(cursor, f"message {message}")
            database.execute(
                """UPDATE conversations SET updated = ?
                   WHERE id = (SELECT conversation FROM messages WHERE id = ?)""",
                (time.time(), message),
            )

    def set_draft(self, conversation: int | None, text: str) -> None:
        """Keep an unsent prompt for a conversation, or for none; an empty text forgets it."""
        with self._database.writing(durable=False) as database:
            database.execute("DELETE FROM drafts WHERE conversation IS ?", (conversation,))
            if text:
                database.execute("INSERT INTO drafts VALUES (?, ?)", (conversation, _text(text)))

    def get_draft(self, conversation: int | None) -> str:
        """Return the unsent prompt of a conversation, or of none; '' if there is none."""
        rows = self._database.rows(
            "SELECT content FROM drafts WHERE conversation IS :conversation", conversation=conversation
        )
        return str(rows[0][0]) if rows else ""

    def prompt_history(self, limit: int = 500) -> builtins.list[str]:
        """Return the last `limit` prompts of all conversations, the newest last, each once at its last use."""
        rows = self._database.rows(
            "SELECT content FROM messages WHERE role = 'user' ORDER BY id DESC LIMIT :limit", limit=limit
        )
        return list(dict.fromkeys(row[0] for row in rows))[::-1]

    def _summaries(self, where: str, limit: int, **values: Any) -> builtins.list[ConversationSummary]:
        rows = self._database.rows(
            f"""SELECT id, title, model, profile, created, updated,
                (SELECT count(*) FROM messages WHERE conversation = conversations.id), settings
                FROM conversations WHERE {where} ORDER BY updated DESC, id DESC LIMIT :limit""",
            limit=limit,
            **values,
        )
        return [ConversationSummary(*row) for row in rows]

    def _end_interrupted(self, database: sqlite3.Connection) -> None:
        """Mark what writers that are gone left growing, and remove their lock files."""
        growing = database.execute("SELECT DISTINCT writer FROM messages WHERE writer IS NOT NULL")
        writers = {row[0] for row in growing}
        prefix, suffix = self._running_path("|").name.split("|")
        for file in self.path.parent.iterdir():
            if file.name.startswith(prefix) and file.name.endswith(suffix):
                writers.add(file.name.removeprefix(prefix).removesuffix(suffix))
        for writer in writers - {self._token}:
            if not self._is_running(writer):
                database.execute(
                    """UPDATE messages SET status = ?, writer = NULL,
                       note = CASE note WHEN '' THEN ? ELSE note END WHERE writer = ?""",
                    (INTERRUPTED, _CUT_OFF, writer),
                )

    def _is_running(self, token: str) -> bool:
        """Whether the store with this token is open somewhere; the lock file of a dead one is removed."""
        lock = FileLock(self._running_path(token))
        if not lock.path.exists():
            return False
        if not lock.acquire(timeout=0):
            return True
        lock.release()
        lock.path.unlink(missing_ok=True)
        return False

    def _running_path(self, token: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{token}.running")


def _must_exist(cursor: sqlite3.Cursor, what: str) -> None:
    if cursor.rowcount == 0:
        raise StoreError(f"{what} no longer exists: it was deleted")


def _new_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None, "an INSERT has a row id"
    return cursor.lastrowid


def _text(text: str) -> str:
    """Return the text without lone surrogates, which no file can hold."""
    return text.encode(errors="replace").decode()


def _stats(text: str | None) -> dict[str, Any] | None:
    """Read a turn's figures; ones that cannot be read are not worth losing the conversation for."""
    try:
        stats = json.loads(text) if text else None
    except ValueError:
        return None
    return stats if isinstance(stats, dict) else None
