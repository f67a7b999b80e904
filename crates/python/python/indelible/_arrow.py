"""Arrow columns of other libraries, and joins over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core
from ._errors import ProgrammingError


def stream_of(data: Any) -> Any:
    """An object with `__arrow_c_stream__`. The index of a frame of pandas is none of its columns."""
    if isinstance(data, Mapping):
        import pyarrow

        return pyarrow.table(dict(data))
    if type(data).__module__.startswith("pandas.") and hasattr(data, "reset_index"):
        import pyarrow

        return pyarrow.Table.from_pandas(data, preserve_index=False)
    if not hasattr(data, "__arrow_c_stream__"):
        name = type(data).__name__
        message = (
            f"{name} has no __arrow_c_stream__; pass a table of pyarrow, polars or pandas, "
            "or a mapping of names to arrays"
        )
        raise ProgrammingError(message)
    return data


def join(
    left: Any,
    right: Any,
    on: str | None = None,
    *,
    left_on: str | None = None,
    right_on: str | None = None,
    how: str = "inner",
    suffixes: tuple[str, str] = ("_x", "_y"),
    threads: int | None = None,
) -> Any:
    """Joins two tables where their keys are equal, by the joins of `docs/joins.md`.

    `left` and `right` have `__arrow_c_stream__`, or are mappings of names to NumPy arrays. The keys
    are integers of any types, or dates or timestamps of one type: `on` names a column of both
    sides, `left_on` and `right_on` two different ones. `how` is "inner" or "left". As in pandas,
    NULL meets NULL, each pair of equal keys is a row, and names that both sides have get suffixes.
    Unlike there, rows come in no particular order.

    A table of pyarrow where that is installed, else an object with `__arrow_c_stream__`.
    """
    left_key, right_key = (on, on) if on is not None else (left_on, right_on)
    if left_key is None or right_key is None or (on is not None and (left_on or right_on)):
        raise ProgrammingError("name the keys with `on`, or with `left_on` and `right_on`")
    stream = _core.join(
        stream_of(left), stream_of(right), left_key, right_key, how, suffixes, threads
    )
    try:
        import pyarrow
    except ImportError:
        return stream
    return pyarrow.RecordBatchReader.from_stream(stream).read_all()
