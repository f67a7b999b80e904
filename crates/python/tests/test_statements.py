"""Goal: statements, parameters and values behave as PEP 249 and the documentation say.

Method: each value goes in as a parameter and comes back, from a column of its type and from a
bare SELECT.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import io
import uuid
from typing import Any

import pytest

import indelible

UTC = dt.timezone.utc
VALUES: list[tuple[str, Any]] = [
    ("boolean", True),
    ("smallint", -7),
    ("integer", 2**31 - 1),
    ("bigint", -(2**63)),
    ("numeric", decimal.Decimal("12345678901234567890.0123456789")),
    ("numeric", decimal.Decimal("NaN")),
    ("real", 0.5),
    ("double precision", 1e-300),
    ("text", "größer ; ' \" ?"),
    ("varchar(10)", "abc"),
    ("bytea", b"\x00\xff'"),
    ("date", dt.date(1582, 10, 15)),
    ("time", dt.time(23, 59, 59, 999_999)),
    ("timestamp", dt.datetime(1, 1, 1)),
    ("timestamp", dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    ("timestamptz", dt.datetime(2024, 2, 29, 12, 0, tzinfo=UTC)),
    ("interval", dt.timedelta(days=-3, seconds=5, microseconds=7)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("json", {"a": [1, 2.5, None, "x"]}),
    ("jsonb", {"a": {"b": [True, "ü"]}}),
    ("jsonb", [1, "two", None]),
    ("integer[]", [1, None, 3]),
    ("text[]", [["a", "b"], ["c", "d"]]),
    ("bigint[]", []),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda value: str(value)[:20])
def test_a_value_comes_back(con: indelible.Connection, kind: str, value: Any) -> None:
    con.execute(f"CREATE TABLE t (v {kind})")
    con.execute("INSERT INTO t VALUES (?), (NULL)", (value,))
    rows = con.execute("SELECT v FROM t").fetchall()
    assert rows[1] == (None,)
    assert repr(rows[0][0]) == repr(value)
    (bare,) = con.execute("SELECT CAST(? AS " + kind + ")", (value,)).fetchone() or ()
    assert repr(bare) == repr(value)


def test_a_bare_parameter_keeps_its_type(con: indelible.Connection) -> None:
    values = (5, 2**70, 1.5, "x", True, None, dt.date(2020, 1, 1))
    row = con.execute("SELECT ?, ?, ?, ?, ?, ?, ?", values).fetchone()
    assert row == values


def test_styles_of_parameters(con: indelible.Connection) -> None:
    assert con.execute("SELECT ? || ?", ("a", "b")).fetchone() == ("ab",)
    assert con.execute("SELECT $2 || $1", ("a", "b")).fetchone() == ("ba",)
    assert con.execute("SELECT :x || :y || :x", {"x": "a", "y": "b"}).fetchone() == ("aba",)
    assert con.execute("SELECT '?', ':x'").fetchone() == ("?", ":x")


def test_enums_and_bytes_like_values(con: indelible.Connection) -> None:
    class Colour(enum.Enum):
        RED = "red"

    row = con.execute("SELECT ?, ?, ?", (Colour.RED, bytearray(b"a"), memoryview(b"b"))).fetchone()
    assert row == ("red", b"a", b"b")


@pytest.mark.parametrize(
    ("statement", "parameters", "error", "state"),
    [
        ("SELEC 1", None, indelible.ProgrammingError, "42601"),
        ("SELECT * FROM missing", None, indelible.ProgrammingError, "42P01"),
        ("SELECT 1 / ?", (0,), indelible.DataError, "22012"),
        ("SELECT ?", (), indelible.ProgrammingError, "08P01"),
        ("SELECT ?", (object(),), indelible.ProgrammingError, "42804"),
        ("SELECT ?", "text", indelible.ProgrammingError, "42804"),
        ("SELECT :a", {"b": 1}, indelible.ProgrammingError, "42804"),
        ("SELECT ?", {"b": 1}, indelible.ProgrammingError, "42804"),
        ("SELECT CAST(? AS date)", ("x",), indelible.DataError, "22007"),
        ("SELECT ?", ("a\0b",), indelible.DataError, "22021"),
        ("SELECT ?; SELECT 2", (1,), indelible.ProgrammingError, "42601"),
        ("SELECT 'infinity'::timestamp", None, indelible.DataError, "22008"),
    ],
)
def test_wrong_statements(
    con: indelible.Connection,
    statement: str,
    parameters: Any,
    error: type[indelible.Error],
    state: str,
) -> None:
    with pytest.raises(error) as raised:
        con.execute(statement, parameters).fetchall()
    assert raised.value.sqlstate == state
    assert not raised.value.retryable


def test_constraints_are_named(con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    con.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(indelible.IntegrityError) as raised:
        con.execute("INSERT INTO t VALUES (1)")
    assert raised.value.sqlstate == "23505"
    assert raised.value.constraint == "t_pkey"
    assert raised.value.table == "t"


def test_fetching(con: indelible.Connection) -> None:
    cursor = con.execute("SELECT g FROM generate_series(1, 3000) g")
    assert cursor.description is not None
    assert cursor.description[0][:2] == ("g", 23)
    assert cursor.description[0][1] == indelible.NUMBER
    assert cursor.fetchone() == (1,)
    assert cursor.fetchmany(2) == [(2,), (3,)]
    assert len(cursor.fetchmany(1500)) == 1500
    assert cursor.rownumber == 1503
    assert sum(1 for _ in cursor) == 3000 - 1503
    assert cursor.fetchone() is None
    assert cursor.fetchall() == []


def test_results_stay_readable(con: indelible.Connection) -> None:
    first = con.execute("SELECT g FROM generate_series(1, 5000) g")
    first.fetchone()
    con.execute("CREATE TABLE t (a integer)")
    con.commit()
    assert len(first.fetchall()) == 4999


def test_counts(con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer)")
    assert con.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(2500)]).rowcount == 2500
    assert con.execute("UPDATE t SET a = a + 1 WHERE a < 10").rowcount == 10
    assert con.execute("DELETE FROM t").rowcount == 2500


def test_executemany_is_all_or_nothing(path: Any) -> None:
    con = indelible.connect(path, autocommit=True)
    con.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    with pytest.raises(indelible.IntegrityError):
        con.executemany("INSERT INTO t VALUES (?)", [(1,), (2,), (1,)])
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    many = [(at,) for at in range(3000)]
    for bad, kind in [((1, 2), indelible.ProgrammingError), (("x",), indelible.DataError)]:
        with pytest.raises(kind):
            con.executemany("INSERT INTO t VALUES (?)", [*many, bad])
        assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
        # A part of the rows has run, so the block that was open can only be rolled back.
        with pytest.raises(kind), con.transaction():
            con.executemany("INSERT INTO t VALUES (?)", [*many, bad])
        assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert con.executemany("INSERT INTO t VALUES (?)", many).rowcount == 3000
    con.close()


def test_copy(con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer, b text)")
    cursor = con.cursor()
    assert cursor.copy("COPY t FROM STDIN", b"1\tone\n2\ttwo\n") == 2
    assert cursor.copy("COPY t FROM STDIN (FORMAT csv)", [b"3,th", b"", b"ree\n"]) == 1
    assert cursor.copy("COPY t FROM STDIN", "4\tfür\n") == 1
    assert cursor.copy("COPY t FROM STDIN", io.StringIO("5\tx\n6\ty\n")) == 2
    cursor.execute("DELETE FROM t WHERE a > 3")
    blocks: list[bytes] = []
    assert cursor.copy("COPY t TO STDOUT (FORMAT csv)", blocks.append) == 3
    assert b"".join(blocks) == b"1,one\n2,two\n3,three\n"

    def fails(block: bytes) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        cursor.copy("COPY t TO STDOUT", fails)


def test_html(con: indelible.Connection) -> None:
    cursor = con.execute("SELECT '<b>' AS a, NULL AS b")
    shown = cursor._repr_html_()
    assert shown is not None
    assert "&lt;b&gt;" in shown and "NULL" in shown
    assert cursor.fetchall() == [("<b>", None)]


def test_table(con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer, b text, c integer, PRIMARY KEY (a, b))")
    table = con.table("t", key=("a", "b"))
    table.insert({"a": 1, "b": "x", "c": 5})
    table.upsert({"a": 1, "b": "x", "c": 6})
    table.upsert({"a": 0, "b": "y", "c": 7})
    assert table.get((1, "x")) == {"a": 1, "b": "x", "c": 6}
    assert table.update((1, "x"), c=9)
    assert [row["c"] for row in table.scan()] == [7, 9]
    assert [row["c"] for row in table.scan(backward=True)] == [9, 7]
    assert table.update((1, "x")) and not table.update((2, "x"))
    assert table.delete((0, "y")) and not table.delete((0, "y"))
    assert len(table) == 1
    con.execute("CREATE TABLE numbered (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    con.table("numbered", key="id").insert({})
    assert con.table("numbered", key="id").get(1) == {"id": 1}
    with pytest.raises(indelible.ProgrammingError, match="2 columns, 1 values"):
        table.get(1)
    with pytest.raises(indelible.ProgrammingError, match="no column z; its columns are a, b, c"):
        con.table("t", key="z")


def test_missing_values_of_pandas_are_null(con: indelible.Connection) -> None:
    """NaT is a datetime by its class; its fields ended the call, and the cursor was of no use."""
    pandas = pytest.importorskip("pandas")
    con.execute("CREATE TABLE t (a timestamp, b date, c integer)")
    cursor = con.cursor()
    cursor.execute("INSERT INTO t VALUES (?, ?, ?)", (pandas.NaT, pandas.NaT, pandas.NA))
    cursor.executemany("INSERT INTO t VALUES (?, ?, ?)", [(pandas.NaT, pandas.NaT, pandas.NA)])
    assert con.execute("TABLE t").fetchall() == [(None, None, None)] * 2
    moment = pandas.Timestamp("2024-02-29 12:00:00.000001")
    assert con.execute("SELECT ?", (moment,)).fetchone() == (dt.datetime(2024, 2, 29, 12, 0, 0, 1),)

    class Bad(dt.datetime):
        @property
        def year(self) -> Any:
            return "x"

    with pytest.raises(TypeError):
        cursor.execute("SELECT ?", (Bad(2020, 1, 1),))
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_numpy(con: indelible.Connection) -> None:
    """An array was an error, or a number if it had one element; moments with nanoseconds, as those of
    pandas have, were numbers.
    """
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    con.execute("CREATE TABLE t (id integer)")
    con.executemany("INSERT INTO t VALUES (?)", numpy.arange(10).reshape(10, 1))
    chosen = "SELECT id FROM t WHERE id = any(?) ORDER BY 1"
    for ids in [[1, 3], [1], []]:
        found = [(id,) for id in ids]
        assert con.execute(chosen, (numpy.array(ids, dtype=int),)).fetchall() == found
        assert con.execute(chosen, (pandas.Series(ids, dtype="Int64"),)).fetchall() == found

    def same(value: Any) -> Any:
        row = con.execute("SELECT ?", (value,)).fetchone()
        assert row is not None
        return row[0]

    assert same(numpy.array(5)) == 5 and same(numpy.float32(0.5)) == 0.5
    assert same(numpy.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]
    assert same(numpy.array(["a", "b"])) == ["a", "b"]
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
    of_numpy = numpy.datetime64("2024-01-02T03:04:05.678901234")
    assert same(of_numpy) == moment and same(numpy.array([of_numpy])) == [moment]
    assert same(pandas.Series([pandas.Timestamp(of_numpy)])) == [moment]
    assert same(numpy.datetime64("2024-01-02")) == dt.date(2024, 1, 2)
    assert same(numpy.timedelta64(1500, "ms")) == dt.timedelta(seconds=1.5)
    for unit in ["ns", "D"]:
        assert same(numpy.datetime64("NaT", unit)) is None
    with pytest.raises(indelible.Error, match="complex"):
        same(numpy.complex64(1))


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_documents_are_those_of_json(con: indelible.Connection, kind: str) -> None:
    """A NaN was stored, and no reader of the table understood the row."""
    con.execute(f"CREATE TABLE t (v {kind})")
    con.commit()
    for value in ({"a": float("nan")}, {"a": [float("inf")]}, [1.5, float("nan")]):
        with pytest.raises(indelible.DataError) as raised:
            con.execute("INSERT INTO t VALUES (?)", (value,))
        assert raised.value.sqlstate == "22P02"
        con.rollback()
    with pytest.raises(TypeError):
        con.execute("INSERT INTO t VALUES (?)", ({"a": object()},))
    con.rollback()
    con.execute("INSERT INTO t VALUES (?)", ({"a": [1.5, None]},))
    assert con.execute("TABLE t").fetchall() == [({"a": [1.5, None]},)]


def test_copy_goes_one_way(con: indelible.Connection) -> None:
    """Data of the wrong direction were dropped, and nobody was told."""
    con.execute("CREATE TABLE t (a integer)")
    con.commit()
    cursor = con.cursor()
    assert cursor.copy("COPY t FROM STDIN", bytearray(b"1\n")) == 1
    assert cursor.copy("COPY t FROM STDIN", memoryview(b"2\n")) == 1
    assert cursor.copy("COPY t FROM STDIN", [bytearray(b"3"), memoryview(b"\n")]) == 1
    con.commit()
    for statement, data in [
        ("COPY t FROM STDIN", lambda: b""),
        ("COPY t TO STDOUT", b""),
        ("COPY (SELECT 1 WHERE false) TO STDOUT", b""),
        ("SELECT 1", b""),
        ("SELECT 1", print),
    ]:
        with pytest.raises(indelible.ProgrammingError, match="takes no data|gives no data"):
            cursor.copy(statement, data)
        con.rollback()
    with pytest.raises(TypeError):
        cursor.copy("COPY t FROM STDIN", [1])  # type: ignore[list-item]
    con.rollback()
    blocks: list[bytes] = []
    assert cursor.copy("COPY t TO STDOUT", blocks.append) == 3


def test_the_count_of_a_long_result(con: indelible.Connection) -> None:
    """It stayed -1, though all rows had come."""
    cursor = con.execute("SELECT g FROM generate_series(1, 3000) g")
    assert cursor.rowcount == -1
    cursor.fetchall()
    assert cursor.rowcount == 3000


def test_statements_come_back_after_deallocate(con: indelible.Connection) -> None:
    """Each text that had run before failed from then on."""
    for forget in ("DEALLOCATE ALL", "DISCARD ALL"):
        assert con.execute("SELECT ? + 1", (1,)).fetchone() == (2,)
        con.commit()
        con.autocommit = True
        con.execute(forget)
        con.autocommit = False
        assert con.execute("SELECT ? + 1", (2,)).fetchone() == (3,)


def test_lists_of_numbers(con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a numeric[])")
    con.execute("INSERT INTO t VALUES (?)", ([1, 2.5, None],))
    assert con.execute("SELECT a::text FROM t").fetchone() == ("{1,2.5,NULL}",)


def test_spans_that_python_has_not(con: indelible.Connection) -> None:
    for span in ("2000000000 days", "100000000 months"):
        with pytest.raises(indelible.DataError) as raised:
            con.execute(f"SELECT interval '{span}'").fetchall()
        assert raised.value.sqlstate == "22008"


def test_the_newest_notices(con: indelible.Connection) -> None:
    """All were kept until somebody asked."""
    for at in range(60):
        con.execute(f"DROP TABLE IF EXISTS missing_{at}")
    assert len(con.notices) == 50
    assert con.notices == []
