"""Exceptions: PEP 249's classes, chosen by the class of the SQLSTATE."""

from __future__ import annotations


class Warning(Exception):  # noqa: A001 - PEP 249 gives the name
    """Something to know about a statement that went on."""


class Error(Exception):
    """The base of all errors of this module.

    `sqlstate` are five characters that tell a program the kind of the error; `retryable` says
    whether the same transaction may succeed when it is run again; `detail` and `hint` are further
    sentences or None; `position` is the place in the text of the statement, from 1, or None.
    """

    sqlstate: str | None = None
    retryable: bool = False
    detail: str | None = None
    hint: str | None = None
    position: int | None = None
    table: str | None = None
    constraint: str | None = None


class InterfaceError(Error):
    """A wrong use of this module: a closed connection, a result that was taken already."""


class DatabaseError(Error):
    """The base of errors of the database."""


class DataError(DatabaseError):
    """A value that its type cannot hold, a division by zero."""


class OperationalError(DatabaseError):
    """The surroundings: a conflict, a lock, an interrupt, a full device, a database in use."""


class IntegrityError(DatabaseError):
    """A constraint is broken: unique, foreign key, not null, check."""


class InternalError(DatabaseError):
    """A broken invariant of the library, damaged data, a transaction that has failed already."""


class ProgrammingError(DatabaseError):
    """A statement that cannot run: syntax, names, types, numbers of parameters."""


class NotSupportedError(DatabaseError):
    """A feature that is not there."""


_CLASSES: dict[str, type[Error]] = {
    "08": InterfaceError,
    "0A": NotSupportedError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "25": InternalError,
    "26": ProgrammingError,
    "2B": ProgrammingError,
    "34": ProgrammingError,
    "3B": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "44": IntegrityError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "72": OperationalError,
    "XX": InternalError,
}
_STATES: dict[str, type[Error]] = {"08007": OperationalError, "08P01": ProgrammingError}
_RETRYABLE = frozenset({"40001", "40P01", "55P03", "72000"})


def exception(
    state: str,
    message: str,
    detail: str | None = None,
    hint: str | None = None,
    position: int | None = None,
    table: str | None = None,
    constraint: str | None = None,
) -> Error:
    """The exception of an error of the core."""
    found = _STATES.get(state) or _CLASSES.get(state[:2], DatabaseError)
    text = message if detail is None else f"{message}\nDETAIL: {detail}"
    error = found(text if hint is None else f"{text}\nHINT: {hint}")
    error.sqlstate = state
    error.retryable = state in _RETRYABLE
    error.detail = detail
    error.hint = hint
    error.position = position
    error.table = table
    error.constraint = constraint
    return error
