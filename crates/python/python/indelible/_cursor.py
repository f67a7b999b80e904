"""Cursors: statements and their rows."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import NotSupportedError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Parameters = Sequence[Any] | Mapping[str, Any]
Bytes = bytes | bytearray | memoryview
Block = Bytes | str

#: Rows of a batch of Arrow.
BATCH_ROWS = 65_536
#: Rows that a notebook shows.
_SHOWN_ROWS = 20


class Cursor(_core.Cursor):
    """Runs statements of a connection and reads their rows.

    `rowcount` is the number of rows that a statement changed or returned, or -1 while it is not
    known; `description` has a tuple for each column: name, type code, None, bytes of the type,
    precision, scale, None. Iterating reads the rows that are left.

    `execute(operation, parameters=None)` runs one statement and returns the cursor. Parameters are
    a sequence for `?` and `$1`, or a mapping for `:name`; without them the text is taken as it
    stands. `executemany(operation, seq_of_parameters)` runs one statement for each row of
    parameters, by one plan; all of them or none: with autocommit they are one transaction.
    `rowcount` is the sum, and rows that the statement returns are dropped. `fetchone()`,
    `fetchmany(size=arraysize)` and `fetchall()` read rows as tuples.
    """

    #: Always None: rows have the keys that their tables give them, as RETURNING says.
    lastrowid: int | None = None

    # Statements

    def executescript(self, script: str) -> Cursor:
        """Runs all statements of a text, without parameters and without their rows.

        Together they are one transaction, unless one of them begins or ends one.
        """
        self._script(script)
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        """Calls a function and leaves its rows to be fetched; the parameters as they were."""
        places = ", ".join("?" * len(parameters))
        self.execute(f"SELECT * FROM {procname}({places})", parameters)
        return parameters

    def copy(
        self, operation: str, data: Block | Iterable[Block] | Callable[[bytes], object]
    ) -> int:
        """Runs `COPY ... FROM STDIN` with bytes, or `COPY ... TO STDOUT` into a function.

        `data` is bytes or a text, an iterable of them such as a file, or the function that takes
        each block of bytes: `file.write`. The number of rows. Raises ProgrammingError where the statement goes the other way.
        """
        self._check()
        self._forget()
        if callable(data):
            rows = self._session.copy_out(operation, data)
        else:
            given: Any = data
            blocks: Iterator[Block] = iter((given,) if isinstance(given, Block) else given)

            def following() -> Bytes:
                # An empty block would end the data.
                block = next((block for block in blocks if block), b"")
                return block.encode() if isinstance(block, str) else block

            rows = self._session.copy_in(operation, following)
        return self._count(rows)

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

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._drop()

    def _repr_html_(self) -> str | None:
        """A table of the next rows for notebooks, which stay unread."""
        if self.description is None:
            return None
        rows, has_more = self._peek(_SHOWN_ROWS)
        return table([column[0] for column in self.description], rows, has_more)

    @property
    def _session(self) -> _core.Connection:
        core: _core.Connection = self.connection._core
        return core


def table(names: Iterable[str], rows: Iterable[Iterable[Any]], has_more: bool) -> str:
    """Rows as a table of HTML."""
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    more = "<p>…</p>" if has_more else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
