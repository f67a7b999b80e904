"""Goal: rows come as Arrow and go in as Arrow, unchanged, and joins are those of pandas.

Method: pyarrow, pandas and polars read what the streams give; joins are compared with
`pandas.merge` on random keys with duplicates and NULLs.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest

import indelible

pa = pytest.importorskip("pyarrow")


def test_types(con: indelible.Connection) -> None:
    table = con.execute(
        "SELECT true a, 1::smallint b, 2 c, 3::bigint d, 0.5::real e, 1.5::float8 f,"
        " 2.50::numeric(8,2) g, 'x' h, '\\x00ff'::bytea i, '2020-02-29'::date j,"
        " '12:00'::time k, '2020-01-01'::timestamp l, '2020-01-01 00:00+00'::timestamptz m,"
        " NULL::integer n, 'infinity'::timestamp o"
    ).fetch_arrow_table()
    assert [str(field.type) for field in table.schema] == [
        "bool", "int16", "int32", "int64", "float", "double", "decimal128(8, 2)", "string",
        "binary", "date32[day]", "time64[us]", "timestamp[us]", "timestamp[us, tz=UTC]", "int32",
        "timestamp[us]",
    ]  # fmt: skip
    row = table.to_pylist()[0]
    assert row["g"] == decimal.Decimal("2.50")
    assert row["j"] == dt.date(2020, 2, 29)
    assert row["l"] == dt.datetime(2020, 1, 1)
    assert row["n"] is None and row["o"] is None


def test_batches(con: indelible.Connection) -> None:
    cursor = con.execute("SELECT g FROM generate_series(1, 10000) g")
    sizes = [len(batch) for batch in cursor.fetch_record_batch_reader(4000)]
    assert sum(sizes) == 10_000 and max(sizes) < 6000 and len(sizes) > 1
    empty = con.execute("SELECT 1 a WHERE false").fetch_arrow_table()
    assert empty.num_rows == 0 and empty.column_names == ["a"]
    cursor = con.execute("SELECT 1")
    cursor.fetchone()
    with pytest.raises(indelible.InterfaceError, match="fetched already"):
        cursor.fetch_arrow_table()
    with pytest.raises(indelible.ProgrammingError, match="no result"):
        con.execute("CREATE TABLE t (a integer)").fetch_arrow_table()


def test_an_error_in_the_middle(con: indelible.Connection) -> None:
    cursor = con.execute("SELECT 1 / (5000 - g) FROM generate_series(1, 9000) g")
    with pytest.raises(Exception, match="22012"):
        cursor.fetch_arrow_table()


def test_frames(con: indelible.Connection) -> None:
    text = "SELECT g AS n, 'x' || g AS s FROM generate_series(1, 3) g"
    pandas = pytest.importorskip("pandas")
    assert con.execute(text).df()["n"].tolist() == [1, 2, 3]
    assert isinstance(con.execute(text).df(), pandas.DataFrame)
    polars = pytest.importorskip("polars")
    frame = con.execute(text).pl()
    assert isinstance(frame, polars.DataFrame) and frame["s"].to_list() == ["x1", "x2", "x3"]


def test_load(con: indelible.Connection) -> None:
    con.execute(
        "CREATE TABLE t (a bigint PRIMARY KEY, b text, c numeric(8,2), d timestamptz, e double precision)"
    )
    table = pa.table({
        "a": pa.array(range(3000), pa.int32()),
        "b": pa.array([None if n % 7 == 0 else f"t{n}" for n in range(3000)]),
        "c": pa.array([decimal.Decimal("1.25")] * 3000, pa.decimal128(8, 2)),
        "d": pa.array([dt.datetime(2020, 1, 1)] * 3000, pa.timestamp("ms", "UTC")),
        "e": pa.array([0.5] * 3000, pa.float32()),
    })
    assert con.load("t", table) == 3000
    back = con.execute("SELECT * FROM t ORDER BY a").fetch_arrow_table()
    assert back["b"].to_pylist() == table["b"].to_pylist()
    assert back["d"].to_pylist()[0] == dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    numpy = pytest.importorskip("numpy")
    assert con.load("t", {"a": numpy.arange(5000, 5010), "e": numpy.zeros(10)}) == 10
    with pytest.raises(indelible.NotSupportedError, match="`b` of Arrow's type"):
        con.load("t", pa.table({"a": [9999], "b": [[1]]}))
    with pytest.raises(indelible.ProgrammingError, match="__arrow_c_stream__"):
        con.load("t", 5)


def key_columns(rows: int, distinct: int, nulls: int, seed: int) -> Any:
    import random

    chance = random.Random(seed)
    keys = [None if chance.randrange(100) < nulls else chance.randrange(distinct) for _ in range(rows)]
    return pa.table({"k": pa.array(keys, pa.int64()), "v": list(range(rows))})


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(("offset", "nulls"), [(0, 0), (0, 3), (2**40, 3)])
def test_joins_are_those_of_pandas(how: Any, offset: int, nulls: int) -> None:
    pandas = pytest.importorskip("pandas")
    left, right = key_columns(900, 300, nulls, 1), key_columns(700, 400, nulls, 2)
    if offset:
        # Keys that lie further apart than 32 bits.
        far = pa.table({"k": pa.array([offset], pa.int64()), "v": [-1]})
        left, right = pa.concat_tables([left, far]), pa.concat_tables([right, far])
    found = indelible.join(left, right, on="k", how=how)
    frames = [side.to_pandas(types_mapper=pandas.ArrowDtype) for side in (left, right)]
    wanted = pa.Table.from_pandas(frames[0].merge(frames[1], on="k", how=how), preserve_index=False)
    assert found.column_names == wanted.column_names == ["k", "v_x", "v_y"]

    def rows(table: Any) -> list[tuple[int, ...]]:
        columns = [table[name].to_pylist() for name in table.column_names]
        return sorted(tuple(-9 if v is None else v for v in row) for row in zip(*columns, strict=True))

    assert rows(found) == rows(wanted)


def test_joins_that_cannot_be() -> None:
    table = pa.table({"a": [1, 2], "s": ["x", "y"], "u": pa.array([1, 2], pa.uint64())})
    with pytest.raises(indelible.ProgrammingError, match="no column `b`; there are `a`, `s`"):
        indelible.join(table, table, on="b")
    with pytest.raises(indelible.ProgrammingError, match="keys are integers"):
        indelible.join(table, table, on="s")
    with pytest.raises(indelible.ProgrammingError, match="cast one of them"):
        indelible.join(table, table, left_on="a", right_on="u")
    with pytest.raises(indelible.ProgrammingError, match="name the keys"):
        indelible.join(table, table)
    with pytest.raises(indelible.DataError, match='"inner" or "left"'):
        indelible.join(table, table, on="a", how="outer")
    different = indelible.join(table, pa.table({"b": pa.array([2], pa.int8())}), left_on="a", right_on="b")
    assert different.to_pylist() == [{"a": 2, "s": "y", "u": 2, "b": 2}]


def test_a_result_is_loaded_by_its_own_connection(con: indelible.Connection) -> None:
    """It waited for itself for ever."""
    con.execute("CREATE TABLE t (a integer, b text)")
    con.execute("INSERT INTO t SELECT g, 'x' || g FROM generate_series(1, 100000) g")
    con.execute("CREATE TABLE u (LIKE t)")
    assert con.load("u", con.execute("TABLE t").fetch_record_batch_reader()) == 100_000
    assert con.load("u", con.execute("TABLE t")) == 100_000
    assert con.load("t", con.execute("SELECT b, a FROM t LIMIT 10")) == 10
    assert con.execute("SELECT count(*), count(DISTINCT a) FROM u").fetchone() == (200_000, 100_000)


def test_a_load_is_whole_or_nothing(path: Any) -> None:
    con = indelible.connect(path, autocommit=True)
    con.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    batches = [pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3, 1]})]
    table = pa.Table.from_batches(batches)
    with pytest.raises(indelible.IntegrityError):
        con.load("t", table)
    assert con.execute("TABLE t").fetchall() == []

    def fails() -> Any:
        yield batches[0]
        raise RuntimeError("no more")

    reader = pa.RecordBatchReader.from_batches(table.schema, fails())
    with pytest.raises(indelible.Error, match="no more"), con.transaction():
        try:
            con.load("t", reader)
        except indelible.Error:
            assert con.in_transaction
            with pytest.raises(indelible.InternalError):
                con.execute("SELECT 1")
            raise
    assert con.execute("TABLE t").fetchall() == []
    con.close()


def test_batches_of_long_texts_are_smaller(con: indelible.Connection) -> None:
    """Rows came into one batch until there were too many for its offsets, which ended the process."""
    text = "SELECT repeat('x', 8 << 20) t, convert_to(repeat('y', 4 << 20), 'UTF8') b FROM generate_series(1, 40)"
    sizes = []
    for batch in con.execute(text).fetch_record_batch_reader():
        sizes.append(len(batch))
        assert batch.nbytes < (1 << 28) + (16 << 20)
        assert all(len(one.as_py()) == 8 << 20 for one in batch["t"])
    assert sum(sizes) == 40 and len(sizes) == 2
    arrays = "SELECT ARRAY[repeat('x', 8 << 20)] t FROM generate_series(1, 40)"
    sizes = [len(batch) for batch in con.execute(arrays).fetch_record_batch_reader()]
    assert sum(sizes) == 40 and len(sizes) == 2


def test_intervals_that_arrow_has_not(con: indelible.Connection) -> None:
    cursor = con.execute("SELECT interval '3000000 hours'")
    with pytest.raises(Exception, match="22008"):
        cursor.fetch_arrow_table()
    table = con.execute("SELECT interval '1 month -2 days 3 us'").fetch_arrow_table()
    assert tuple(table.to_pylist()[0].values())[0] == (1, -2, 3000)


def test_load_takes_names_from_any_stream(con: indelible.Connection) -> None:
    """Columns were looked for in attributes of the object, which few have."""
    pandas = pytest.importorskip("pandas")
    con.execute('CREATE TABLE t (a bigint, "B ""x" text)')
    frame = pandas.DataFrame({"a": [1, 2], 'B "x': ["p", None]})
    assert con.load("t", frame) == 2
    assert con.load("t", frame[frame["a"] > 1]) == 1
    assert con.load("t", frame.set_index("a", drop=False)) == 2

    class Foreign:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table({"a": [3]}).__arrow_c_stream__()

    assert con.load("t", Foreign()) == 1
    assert con.execute("SELECT sum(a), count(*) FROM t").fetchone() == (11, 6)
    with pytest.raises(indelible.ProgrammingError, match="no columns"):
        con.load("t", pa.table({}))


def test_dictionaries_are_loaded(con: indelible.Connection) -> None:
    """Each value made a list of the keys of all rows, so that a million took hours."""
    con.execute("CREATE TABLE t (a text)")
    keys = pa.array([at % 3 if at % 5 else None for at in range(20_000)], pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, pa.array(["x", "y", None]))
    assert con.load("t", pa.table({"a": column})) == 20_000
    found = con.execute("SELECT a, count(*) FROM t GROUP BY a ORDER BY a").fetchall()
    assert found == [("x", 5333), ("y", 5334), (None, 9333)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("date", pa.array([2**31 - 1], pa.date32())),
        ("date", pa.array([-(2**31)], pa.date32())),
        ("time", pa.array([-1], pa.time64("us"))),
        ("time", pa.array([86_400_000_001], pa.time64("us"))),
        ("timestamptz", pa.array([-(2**63)], pa.timestamp("us", "UTC"))),
        ("timestamp", pa.array([2**63 - 1], pa.timestamp("s"))),
    ],
)
def test_moments_outside_of_the_range(con: indelible.Connection, kind: str, values: Any) -> None:
    con.execute(f"CREATE TABLE t (v {kind})")
    with pytest.raises(indelible.DataError) as raised:
        con.load("t", pa.table({"v": values}))
    assert raised.value.sqlstate == "22008"
