"""Rows by their keys, without SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import ProgrammingError

if TYPE_CHECKING:
    from ._connection import Connection

Row = dict[str, Any]


class Table:
    """A table of a connection: rows are dictionaries, keys are values or tuples of them.

    The columns of the key are unique together: those of the primary key or of a unique constraint.

    Each call is one statement that is prepared once, in the connection's transactions.
    """

    def __init__(self, connection: Connection, name: str, key: str | Sequence[str]) -> None:
        from ._connection import quoted

        self.name = name
        #: Names of the columns of the key.
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self._connection = connection
        self._quoted = quoted
        self._text = ".".join(map(quoted, name.split(".")))
        cursor = connection.execute(f"SELECT * FROM {self._text} LIMIT 0")
        #: Names of all columns, in their order.
        self.columns = tuple(column[0] for column in cursor.description or ())
        missing = [column for column in self.key if column not in self.columns]
        if missing or not self.key:
            raise ProgrammingError(
                f"table {name} has no column {', '.join(missing) or 'for an empty key'}; "
                f"its columns are {', '.join(self.columns)}"
            )

    def get(self, key: Any) -> Row | None:
        """The row of a key, or None."""
        text = f"SELECT * FROM {self._text} WHERE {self._where()}"
        row = self._connection.execute(text, self._key(key)).fetchone()
        return None if row is None else dict(zip(self.columns, row, strict=True))

    def insert(self, row: Mapping[str, Any]) -> None:
        """Adds a row. Columns that are not there have their defaults."""
        self._connection.execute(self._insert(row), tuple(row.values()))

    def upsert(self, row: Mapping[str, Any]) -> None:
        """Adds a row, or replaces the values of the one with its key."""
        target = ", ".join(map(self._quoted, self.key))
        others = [name for name in row if name not in self.key]
        changes = ", ".join(f"{self._quoted(n)} = excluded.{self._quoted(n)}" for n in others)
        action = f"UPDATE SET {changes}" if others else "NOTHING"
        text = f"{self._insert(row)} ON CONFLICT ({target}) DO {action}"
        self._connection.execute(text, tuple(row.values()))

    def update(self, key: Any, **changes: Any) -> bool:
        """Changes columns of the row of a key; whether it is there."""
        if not changes:
            return self.get(key) is not None
        values = ", ".join(f"{self._quoted(name)} = ?" for name in changes)
        text = f"UPDATE {self._text} SET {values} WHERE {self._where()}"
        cursor = self._connection.execute(text, (*changes.values(), *self._key(key)))
        return cursor.rowcount == 1

    def delete(self, key: Any) -> bool:
        """Removes the row of a key; whether it was there."""
        text = f"DELETE FROM {self._text} WHERE {self._where()}"
        return self._connection.execute(text, self._key(key)).rowcount == 1

    def scan(self, *, backward: bool = False) -> Iterator[Row]:
        """All rows in the order of the key."""
        direction = " DESC" if backward else ""
        keys = ", ".join(self._quoted(name) + direction for name in self.key)
        for row in self._connection.execute(f"SELECT * FROM {self._text} ORDER BY {keys}"):
            yield dict(zip(self.columns, row, strict=True))

    def __len__(self) -> int:
        row = self._connection.execute(f"SELECT count(*) FROM {self._text}").fetchone()
        assert row is not None
        return int(row[0])

    def __repr__(self) -> str:
        return f"<indelible.Table {self.name}>"

    def _insert(self, row: Mapping[str, Any]) -> str:
        if not row:
            return f"INSERT INTO {self._text} DEFAULT VALUES"
        names = ", ".join(map(self._quoted, row))
        places = ", ".join("?" * len(row))
        return f"INSERT INTO {self._text} ({names}) VALUES ({places})"

    def _where(self) -> str:
        return " AND ".join(f"{self._quoted(name)} = ?" for name in self.key)

    def _key(self, key: Any) -> tuple[Any, ...]:
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(self.key):
            raise ProgrammingError(
                f"the key of {self.name} has {len(self.key)} columns, "
                f"{len(values)} values were given"
            )
        return values
