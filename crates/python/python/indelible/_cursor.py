"""Cursors: statements and their rows."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import InterfaceError, NotSupportedError, ProgrammingError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection

Parameters = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]
Description = tuple[str, int, None, int | None, int | None, int | None, None]

#: Rows of a batch of Arrow.
BATCH_ROWS = 65_536
#: Rows that a notebook shows.
_SHOWN_ROWS = 20


class Cursor:
    """Runs statements of a connection and reads their rows.

    `rowcount` is the number of rows that a statement changed or returned, or -1 while it is not
    known; `description` has a tuple for each column: name, type code, None, bytes of the type,
    precision, scale, None. Iterating reads the rows that are left.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Description] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._result: int | None = None
        self._has_more = False
        self._rows: list[Row] = []
        self._at = 0
        self._read = 0
        self._is_closed = False

    # Statements

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Runs one statement; its rows are read by the methods that fetch.

        Parameters are a sequence for `?` and `$1`, or a mapping for `:name`. Without parameters
        the text is taken as it stands.
        """
        self._begin()
        core = self.connection._core
        result, columns, command, count = core.execute(operation, parameters)
        self._result, self._has_more = result, result is not None
        if columns is not None:
            self.description = [
                (name, code, None, size, precision, scale, None)
                for name, code, size, precision, scale in columns
            ]
        self.rowcount = -1 if count is None else count
        self.connection._executed(command)
        return self

    def executemany(
        self, operation: str, seq_of_parameters: Iterable[Parameters]
    ) -> Cursor:
        """Runs one statement for each row of parameters, by one plan; all of them or none.

        `rowcount` is the sum. Rows that the statement returns are dropped. With autocommit they
        are one transaction.
        """
        self._begin()
        with self.connection._all_or_nothing():
            core = self.connection._core
            self.rowcount = core.execute_many(operation, seq_of_parameters)
        return self

    def executescript(self, script: str) -> Cursor:
        """Runs all statements of a text, without parameters and without their rows.

        Together they are one transaction, unless one of them begins or ends one.
        """
        self._begin()
        self.connection._core.execute_script(script)
        self.connection._synchronise()
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        """Calls a function and leaves its rows to be fetched; the parameters as they were."""
        places = ", ".join("?" * len(parameters))
        self.execute(f"SELECT * FROM {procname}({places})", parameters)
        return parameters

    def copy(
        self, operation: str, data: bytes | Iterable[bytes] | Callable[[bytes], object]
    ) -> int:
        """Runs `COPY ... FROM STDIN` with bytes, or `COPY ... TO STDOUT` into a function.

        `data` is bytes, an iterable of them, or the function that takes each block: `file.write`.
        The number of rows.
        """
        self._begin()
        core = self.connection._core
        if callable(data):
            rows = core.copy_out(operation, data)
        else:
            blocks = iter((data,) if isinstance(data, bytes | bytearray) else data)
            # An empty block would end the data.
            rows = core.copy_in(operation, lambda: next((b for b in blocks if b), b""))
        self.rowcount = -1 if rows is None else rows
        return self.rowcount

    # Rows

    def fetchone(self) -> Row | None:
        """The next row, or None after the last one."""
        if self._at >= len(self._rows) and not self._more():
            return None
        row = self._rows[self._at]
        self._at += 1
        return row

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """At most `size` rows; `arraysize` is the default. An empty list after the last one."""
        wanted = self.arraysize if size is None else size
        rows: list[Row] = []
        while len(rows) < wanted and (self._at < len(self._rows) or self._more()):
            taken = self._rows[self._at : self._at + wanted - len(rows)]
            self._at += len(taken)
            rows += taken
        return rows

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        rows = self._rows[self._at :]
        self._at = len(self._rows)
        while self._more():
            rows += self._rows
            self._at = len(self._rows)
        return rows

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    @property
    def rownumber(self) -> int | None:
        """The number of the next row, from 0; None without a result."""
        return None if self._result is None else self._read - len(self._rows) + self._at

    # Arrow

    def fetch_record_batch_reader(self, batch_rows: int = BATCH_ROWS) -> pyarrow.RecordBatchReader:
        """The rows as a reader of `pyarrow`, which reads them batch by batch."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self._stream(batch_rows))

    def fetch_arrow_table(self) -> pyarrow.Table:
        """The rows as a table of `pyarrow`."""
        return self.fetch_record_batch_reader().read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows by Arrow's C interface, for any library that reads it."""
        return self._stream(BATCH_ROWS).__arrow_c_stream__(requested_schema)

    def df(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas."""
        return self.fetch_arrow_table().to_pandas()

    def pl(self) -> polars.DataFrame:
        """The rows as a data frame of polars, without a copy."""
        import polars

        return polars.DataFrame(self)

    def _stream(self, batch_rows: int) -> Any:
        result = self._open_result()
        if self._read:
            message = "rows of this result were fetched already; execute it again to have it as Arrow"
            raise InterfaceError(message)
        return self.connection._core.stream(result, batch_rows)

    # Other methods of PEP 249

    def nextset(self) -> bool | None:
        """A statement has one result, so there is no next one."""
        self._check()
        return None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing: the statement says the types of its parameters."""
        self._check()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values are never cut."""
        self._check()

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Not supported; declare a cursor of SQL instead."""
        raise NotSupportedError("results are read forward only; use DECLARE ... SCROLL CURSOR")

    def close(self) -> None:
        """Forgets the result. A second time does nothing."""
        self._forget()
        self._is_closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self._forget()
        except Exception:  # noqa: BLE001 - nobody could catch it here
            pass

    def _repr_html_(self) -> str | None:
        """A table of the first rows for notebooks; none of them is lost by that."""
        if self._result is None or self.description is None:
            return None
        if self._at >= len(self._rows):
            self._more()
        rows = self._rows[self._at : self._at + _SHOWN_ROWS]
        heads = "".join(f"<th>{html.escape(column[0])}</th>" for column in self.description)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in rows
        )
        more = "<p>…</p>" if len(self._rows) - self._at > _SHOWN_ROWS else ""
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"

    # State

    def _begin(self) -> None:
        self._check()
        self._forget()
        self.description = None
        self.rowcount = -1
        self.connection._begin_if_needed()

    def _check(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed; ask the connection for another one")
        self.connection._check()

    def _open_result(self) -> int:
        self._check()
        if self._result is None:
            raise ProgrammingError("there is no result; execute a statement that returns rows")
        return self._result

    def _more(self) -> bool:
        """Reads the next batch."""
        result = self._open_result()
        rows = None
        if self._has_more:
            rows, self._has_more = self.connection._core.fetch(result)
        self._rows, self._at = rows or [], 0
        self._read += len(self._rows)
        return bool(rows)

    def _forget(self) -> None:
        result, self._result = self._result, None
        has_more, self._has_more = self._has_more, False
        self._rows, self._at, self._read = [], 0, 0
        # The core has forgotten a result that was read to its end.
        if result is not None and has_more and not self.connection._is_closed:
            self.connection._core.close_result(result)


def _shown(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
