"""Type objects and constructors of PEP 249."""

from __future__ import annotations

import datetime
import time


class DBAPIType:
    """Equal to the type codes of `Cursor.description` that belong to it.

    Type codes are PostgreSQL's numbers of types.
    """

    def __init__(self, name: str, *codes: int) -> None:
        self.name = name
        self.codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        return other in self.codes if isinstance(other, int) else self is other

    def __hash__(self) -> int:
        return hash(self.codes)

    def __repr__(self) -> str:
        return self.name


STRING = DBAPIType("STRING", 18, 19, 25, 114, 705, 1042, 1043, 2950, 3802)
BINARY = DBAPIType("BINARY", 17)
NUMBER = DBAPIType("NUMBER", 16, 20, 21, 23, 700, 701, 1700)
DATETIME = DBAPIType("DATETIME", 1082, 1083, 1114, 1184, 1186, 1266)
ROWID = DBAPIType("ROWID", 26, 27)

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - PEP 249 gives the name
    """The local date of seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The local time of seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The local date and time of seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])
