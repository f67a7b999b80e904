"""An embedded transactional database with SQL: PEP 249, Arrow, and a few calls more.

    import indelible
    con = indelible.connect("/dev/shm/shop")
    with con:
        con.execute("CREATE TABLE IF NOT EXISTS t (id bigint PRIMARY KEY, name text)")
        con.execute("INSERT INTO t VALUES (?, ?)", (1, "lamp"))

A commit is durable when it returns, in the sense of the medium (`Connection.survives`).
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from . import _core
from ._advise import advise
from ._arrow import join
from ._connection import Connection, Isolation, Progress, connect, told
from ._cursor import Cursor
from ._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from ._sqlite import import_sqlite
from ._table import Table
from ._types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"


def methods() -> list[str]:
    """The names of the storage methods; docs/methods.md describes them."""
    return _core.methods()


def device(path: str | PathLike[str]) -> dict[str, Any]:
    """What the medium of a directory promises: medium, filesystem, domain, survives, read_miss_ns."""
    return _core.device(path)


def restore(
    file: str | PathLike[str],
    path: str | PathLike[str],
    *,
    method: str | None = None,
    progress: Progress = False,
) -> dict[str, Any]:
    """Makes a new database of a backup, of another method if one is named."""
    with told(progress) as watch:
        return _core.restore(file, path, method=method, watch=watch)


def check_backup(file: str | PathLike[str], *, progress: Progress = False) -> dict[str, Any]:
    """Reads a whole backup and compares its checksums."""
    with told(progress) as watch:
        return _core.check_backup(file, watch)


__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Isolation",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Table",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "advise",
    "apilevel",
    "check_backup",
    "connect",
    "device",
    "import_sqlite",
    "join",
    "methods",
    "paramstyle",
    "restore",
    "threadsafety",
]
