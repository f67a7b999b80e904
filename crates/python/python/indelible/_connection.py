"""Connections and transactions."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike, fsdecode
from typing import Any, Literal, TypeVar

from . import _core, _errors
from ._cursor import Cursor, Parameters
from ._table import Table

Isolation = Literal["read committed", "repeatable read", "serializable"]
Progress = bool | Callable[[str, str, int], object]
R = TypeVar("R")

_ENDS = frozenset({"COMMIT", "ROLLBACK"})
_BEGINS = frozenset({"BEGIN", "START TRANSACTION"})


def connect(
    path: str | PathLike[str],
    *,
    method: str | None = None,
    read_only: bool = False,
    create: bool = True,
    isolation: Isolation | None = None,
    durability: Literal["immediate", "none"] | None = None,
    autocommit: bool = False,
    log_directory: str | PathLike[str] | None = None,
    pool_bytes: int | None = None,
) -> Connection:
    """Connects to the database in a directory, and creates it if it is not there.

    A process opens a directory once; further connections to it share what is open. `method` names
    the storage method of a new database (`indelible.methods()`), `isolation` the level of
    transactions ("read committed" is the default), `durability="none"` lets commits return before
    they are durable. With `autocommit` each statement is a transaction.

    Raises OperationalError if another process has the database open for writing.
    """
    name = fsdecode(path)
    if name == ":memory:" or "://" in name:
        raise _errors.ProgrammingError(
            f'"{name}" is no directory; a database in memory is one in a new directory with '
            'method="volatile", and servers have clients of PostgreSQL'
        )
    database = _core.Database(
        path,
        method=method,
        read_only=read_only,
        create=create,
        log_directory=log_directory,
        pool_bytes=pool_bytes,
    )
    connection = Connection(database, autocommit=autocommit)
    if isolation is not None:
        connection._core.execute_script(f"SET default_transaction_isolation = '{isolation}'")
    if durability is not None:
        setting = {"immediate": "on", "none": "off"}.get(durability)
        if setting is None:
            raise _errors.ProgrammingError(
                f'durability is "immediate" or "none", not "{durability}"'
            )
        connection._core.execute_script(f"SET synchronous_commit = {setting}")
    if read_only:
        connection._core.execute_script("SET default_transaction_read_only = on")
    return connection


class Connection:
    """A session of a database.

    Threads may share it: their calls take turns. Transactions are the connection's, so threads
    that work at the same time have a connection each. A statement begins a transaction if none is
    open, unless `autocommit` is set; `commit` makes it durable. `with connection:` commits at the
    end of the block, or rolls back if it raises; it does not close.
    """

    Warning = _errors.Warning
    Error = _errors.Error
    InterfaceError = _errors.InterfaceError
    DatabaseError = _errors.DatabaseError
    DataError = _errors.DataError
    OperationalError = _errors.OperationalError
    IntegrityError = _errors.IntegrityError
    InternalError = _errors.InternalError
    ProgrammingError = _errors.ProgrammingError
    NotSupportedError = _errors.NotSupportedError

    def __init__(self, database: _core.Database, *, autocommit: bool = False) -> None:
        self._database: _core.Database | None = database
        self._core = database.connect()
        self._core.autocommit = autocommit

    # Statements

    def cursor(self) -> Cursor:
        """A cursor, which runs statements."""
        self._check()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Runs one statement in a new cursor."""
        return self.cursor().execute(operation, parameters)

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Runs one statement for each row of parameters in a new cursor."""
        return self.cursor().executemany(operation, seq_of_parameters)

    def executescript(self, script: str) -> Cursor:
        """Runs all statements of a text."""
        return self.cursor().executescript(script)

    def table(self, name: str, key: str | Sequence[str]) -> Table:
        """Rows of a table by their key, without SQL, in this connection's transactions.

        `key` names the columns of the primary key, or of a unique constraint.
        """
        self._check()
        return Table(self, name, key)

    def load(self, table: str, data: Any) -> int:
        """Appends the rows of Arrow data to a table; their number.

        `data` is anything with `__arrow_c_stream__` (tables of pyarrow, frames of polars and
        pandas without their index, cursors of this or another connection), or a mapping of names
        to NumPy arrays. Columns are found by their names. An error leaves nothing of the rows.
        """
        from ._arrow import stream_of

        stream = stream_of(data)
        self._check()
        target = ".".join(map(quoted, table.split(".")))
        return self._core.load(target, stream)

    # Transactions

    def commit(self) -> None:
        """Makes the open transaction durable. Without one it does nothing."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Undoes the open transaction. Without one it does nothing."""
        self._end("ROLLBACK")

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction. It cannot be changed inside of one."""
        return self._core.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if self.in_transaction:
            message = "a transaction is open; commit it or roll it back before autocommit changes"
            raise _errors.ProgrammingError(message)
        self._core.autocommit = value

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        self._check()
        return self._core.is_open

    @contextlib.contextmanager
    def transaction(
        self, isolation: Isolation | None = None, *, read_only: bool = False
    ) -> Iterator[Connection]:
        """A block that is a transaction: it commits at its end, or rolls back if it raises.

        A block cannot run again; `run` retries a function.
        """
        if self.in_transaction:
            message = "a transaction is open already; use savepoint() inside of it"
            raise _errors.ProgrammingError(message)
        level = "" if isolation is None else f" ISOLATION LEVEL {_checked(isolation)}"
        self._core.run(f"BEGIN{level}{' READ ONLY' if read_only else ''}")
        try:
            yield self
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def run(
        self,
        function: Callable[[Connection], R],
        *,
        isolation: Isolation | None = None,
        retries: int = 10,
    ) -> R:
        """Calls a function in a transaction, and again if another transaction came first.

        The function gets this connection, and must have no effects besides it. Errors that are
        not retryable, and the last one, go to the caller.
        """
        for attempt in range(retries + 1):
            try:
                with self.transaction(isolation):
                    return function(self)
            except _errors.Error as error:
                if not error.retryable or attempt == retries:
                    raise
                # Whoever meets the same rows again should not meet them at the same time.
                time.sleep(random.random() * 0.001 * 2**min(attempt, 6))
        raise AssertionError("the last attempt returns or raises")

    @contextlib.contextmanager
    def savepoint(self, name: str = "block") -> Iterator[None]:
        """A block inside of a transaction that is undone alone if it raises.

        With `autocommit` and outside of a transaction it is one by itself, which commits at its end.
        """
        self._check()
        ends = self._core.begin() and self.autocommit
        self._core.run(f"SAVEPOINT {quoted(name)}")
        try:
            yield
        except BaseException:
            if ends:
                self.rollback()
            else:
                self._core.run(f"ROLLBACK TO SAVEPOINT {quoted(name)}")
                self._core.run(f"RELEASE SAVEPOINT {quoted(name)}")
            raise
        self._core.run(f"RELEASE SAVEPOINT {quoted(name)}")
        if ends:
            self.commit()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection that sees this moment for as long as the block takes, and writes nothing.

        Its reads wait for nobody, and nobody waits for them.
        """
        reader = Connection(self._opened().share())
        try:
            with reader.transaction("repeatable read", read_only=True):
                # The moment is that of the first row that is looked for, so one is.
                found = reader.execute(
                    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n"
                    " ON n.oid = c.relnamespace WHERE c.relkind = 'r'"
                    " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'indelible')"
                ).fetchone()
                if found is not None:
                    table = ".".join(map(quoted, found))
                    reader.execute(f"SELECT 1 FROM {table} LIMIT 1").close()
                yield reader
        finally:
            reader.close()

    # The database

    @property
    def method(self) -> str:
        """The storage method of the database."""
        return self._opened().method()

    @property
    def survives(self) -> str:
        """The failures that a commit survives: "process death" or "power loss"."""
        return self._opened().survives()

    def verify(self) -> int:
        """Checks all pages, rows and indexes; the number of rows.

        Raises InternalError that names the damage.
        """
        damage, rows = self._opened().verify()
        if damage:
            raise _errors.exception("XX001", f"the database is damaged: {'; '.join(damage[:5])}")
        return rows

    def backup(self, file: str | PathLike[str], *, progress: Progress = False) -> dict[str, Any]:
        """Writes a backup to a new file while the database is in use; what was written, by name.

        `progress` is True for a line on the standard error stream, or a function of stage, table
        and rows.
        """
        with told(progress) as watch:
            return self._opened().backup(file, watch)

    def checkpoint(self) -> None:
        """Makes recovery short from here."""
        self._opened().checkpoint()

    def interrupt(self) -> None:
        """Ends the running statement of this connection, from any thread. Commits go on."""
        self._core.interrupt()

    @property
    def notices(self) -> list[tuple[str, str]]:
        """Severity and text of the notices since the last look."""
        return self._core.notices()

    @property
    def last_commit(self) -> dict[str, int] | None:
        """Cost of the last commit: changes, fences, lines_flushed, bytes_stored, bytes_written."""
        return self._core.last_commit()

    def close(self) -> None:
        """Ends the session and rolls an open transaction back. A second time does nothing.

        The last session of a database closes it: other processes may open it then.
        """
        self._core.close()
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def __enter__(self) -> Connection:
        self._check()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __repr__(self) -> str:
        state = "closed" if self._database is None else self._database.method()
        return f"<indelible.Connection {state}>"

    # State

    def _check(self) -> None:
        self._opened()

    def _opened(self) -> _core.Database:
        database = self._database
        if database is None:
            raise _errors.InterfaceError("the connection is closed; connect again")
        return database

    def _end(self, command: str) -> None:
        self._check()
        if self._core.is_open and self._core.run(command) != command:
            message = "the transaction had failed, so it was rolled back; nothing was committed"
            raise _errors.exception("25P02", message)


def quoted(name: str) -> str:
    """A name as it stands in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _checked(isolation: str) -> str:
    if isolation not in ("read committed", "repeatable read", "serializable"):
        message = (
            'isolation is "read committed", "repeatable read" or "serializable", '
            f'not "{isolation}"'
        )
        raise _errors.ProgrammingError(message)
    return isolation


@contextlib.contextmanager
def told(progress: Progress) -> Iterator[Callable[[str, str, int], object] | None]:
    """The function that is told the progress of long work."""
    if progress is False:
        yield None
    elif callable(progress):
        yield progress
    else:
        last = 0.0

        def line(stage: str, table: str, rows: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last > 0.1:
                last = now
                print(f"\r{stage} {table}: {rows:,} rows", end="", file=sys.stderr, flush=True)

        yield line
        print(file=sys.stderr)
