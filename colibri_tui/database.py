"""A SQLite file that several running copies of the program may share: opening, transactions, errors in words.

A file that is no database, or a broken one, is moved aside with its companions, never deleted, and a new one
begins. A full disk or a locked file is one line for a person, and the next call may succeed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.files import FileLock, move_aside, reason

_BUSY_SECONDS = 5.0

_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, until then nothing is saved",
    sqlite3.SQLITE_BUSY: "another program is holding it; try again",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the folder and its permissions",
    sqlite3.SQLITE_CORRUPT: "it is damaged; a restart moves it aside and begins a new one",
    sqlite3.SQLITE_NOTADB: "it is no database; a restart moves it aside and begins a new one",
}


class StoreError(EngineError):
    """Something could not be stored or read. The program goes on; the message says what to do."""


class _DamagedError(Exception):
    """The file is no database, or a broken one."""


class Database:
    """A connection that any thread may use, one at a time.

    notices: what a person should know about the opening, one line each.
    """

    def __init__(self, path: Path, migrations: Sequence[Sequence[str]]) -> None:
        """Open the file at `path`, making it if there is none, and bring its schema up to date.

        migrations: statements that lead from one `user_version` to the next; never changed, only added to.
        Raises StoreError when it cannot be opened, or belongs to a newer version or another program.
        """
        self.path = path
        self.notices: tuple[str, ...] = ()
        self._mutex = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Copies that start together take turns, so that none moves aside what another has just begun.
            with self._errors(), FileLock(path.with_name(f"{path.name}.lock")):
                self._connection = self._connect()
        except OSError as error:
            raise StoreError(f"{path}: cannot be opened ({reason(error)})") from error
        try:
            self._migrate(migrations)
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. May be called twice."""
        with self._mutex:
            self._connection.close()

    def rows(self, query: str, **values: Any) -> list[Any]:
        """Return the rows of a query whose parameters are `:name`d."""
        with self._mutex, self._errors():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def writing(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it or nothing, and no other copy writes meanwhile.

        It survives the end of the program however that comes; with `durable` also a power cut, which costs a
        wait for the disk.
        """
        with self._mutex, self._errors():
            connection = self._connection
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _connect(self) -> sqlite3.Connection:
        try:
            return _open(self.path)
        except _DamagedError:
            kept = move_aside(self.path, "damaged")
            for companion in ("-wal", "-shm"):
                file = self.path.with_name(self.path.name + companion)
                if file.exists():
                    file.replace(kept.with_name(kept.name + companion))
            self.notices = (f"{self.path}: damaged; kept as {kept.name}, a new one begins",)
            return _open(self.path)

    def _migrate(self, migrations: Sequence[Sequence[str]]) -> None:
        with self.writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(migrations):
                raise StoreError(
                    f"{self.path}: a newer version of this program wrote it; update, or move the file away"
                )
            if version == 0 and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise StoreError(f"{self.path}: a database of another program; move it away")
            for step in migrations[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(migrations)}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {_REASONS.get(_code(error), str(error))}") from error


def _open(path: Path) -> sqlite3.Connection:
    """Open and check a file. Raises _DamagedError, OSError, or SQLite's error if the file is not to blame."""
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _check(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.create_function("fold", 1, str.casefold, deterministic=True)
    except (sqlite3.Error, _DamagedError):
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _DamagedError(str(error)) from error
        raise
    if verdict != "ok":
        raise _DamagedError(verdict)


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 for an error of the Python module itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
