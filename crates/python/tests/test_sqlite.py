"""Goal: a file of SQLite comes over whole, or one error names what does not.

Method: files with each kind of thing are imported, and looked at through SQL.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import indelible


def made(path: Path, script: str) -> Path:
    file = path.parent / "old.sqlite"
    with closing(sqlite3.connect(file)) as source:
        source.executescript(script)
    return file


SHOP = """
CREATE TABLE maker (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, since DATE, rich BOOLEAN);
INSERT INTO maker VALUES (3, 'Ada''s	shop\\', '1999-12-31', 1), (7, 'Bob', NULL, 0);
CREATE TABLE product (
    maker INTEGER NOT NULL REFERENCES maker ON DELETE CASCADE,
    number INTEGER NOT NULL,
    price DECIMAL(8, 2) DEFAULT 1.5 CHECK (price > 0 AND 'a)' <> "b"),
    weight REAL, picture BLOB, b TEXT DEFAULT 'it''s', free,
    seen TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (maker, number)
) WITHOUT ROWID;
INSERT INTO product VALUES (3, 1, 19.9, 2, x'00ff', 'ü' || char(10), 5, '2024-02-29 12:00:00'),
    (7, 1, 3, 0.25, NULL, '', NULL, NULL);
CREATE INDEX by_weight ON product (weight DESC);
CREATE UNIQUE INDEX cheap ON product (number, maker) WHERE price < 100;
CREATE VIEW dear AS SELECT maker FROM product WHERE price > 10;
"""


def test_a_file_comes_over(path: Path, con: indelible.Connection) -> None:
    counts: list[tuple[str, int]] = []
    rows = indelible.import_sqlite(
        con, made(path, SHOP), progress=lambda _, table, count: counts.append((table, count))
    )
    assert rows == {"maker": 2, "product": 2} and counts == [("maker", 2), ("product", 2)]
    found = con.execute("SELECT id, name, since::text, rich FROM maker ORDER BY 1").fetchall()
    assert found == [(3, "Ada's\tshop\\", "1999-12-31", True), (7, "Bob", None, False)]
    row = con.execute("SELECT price::text, weight, picture, b, free FROM product").fetchone()
    assert row == ("19.9", 2.0, b"\x00\xff", "ü\n", 5)
    assert con.execute("SELECT maker FROM dear").fetchall() == [(3,)]
    con.execute("INSERT INTO maker (name) VALUES ('Cid')")
    assert con.execute("SELECT id FROM maker WHERE name = 'Cid'").fetchone() == (8,)
    indexes = con.execute("SELECT indexdef FROM pg_indexes WHERE indexname IN ('by_weight', 'cheap')")
    texts = " ".join(text for (text,) in indexes)
    assert "weight DESC" in texts and "UNIQUE" in texts and "price < " in texts
    con.commit()
    for refused in [
        "INSERT INTO product (maker, number, price) VALUES (3, 2, -1)",
        "INSERT INTO product (maker, number) VALUES (4, 1)",
        "INSERT INTO maker (name) VALUES ('Bob')",
    ]:
        with pytest.raises(indelible.IntegrityError):
            con.execute(refused)
        con.rollback()


def test_numbers_of_deleted_rows_are_not_given_again(path: Path, con: indelible.Connection) -> None:
    file = made(
        path,
        """
        CREATE TABLE kept (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT);
        INSERT INTO kept (t) VALUES ('a'), ('b'), ('c');
        CREATE TABLE "The IDENTITY" ("Id" INTEGER NOT NULL, t TEXT, PRIMARY KEY ("Id" AUTOINCREMENT));
        INSERT INTO "The IDENTITY" (t) VALUES ('a'), ('b');
        CREATE TABLE plain (id INTEGER PRIMARY KEY, t TEXT);
        INSERT INTO plain (t) VALUES ('a'), ('b');
        CREATE TABLE unused (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT);
        CREATE TABLE "of texts" ("IDENTITY" TEXT PRIMARY KEY);
        INSERT INTO "of texts" VALUES ('a');
        CREATE TABLE greatest (id INTEGER PRIMARY KEY AUTOINCREMENT);
        INSERT INTO greatest VALUES (9223372036854775807);
        DELETE FROM kept WHERE id > 1; DELETE FROM "The IDENTITY"; DELETE FROM plain WHERE id > 1;
        """,
    )
    indelible.import_sqlite(con, file)
    for table, key, number in [("kept", "id", 4), ("The IDENTITY", "Id", 3), ("plain", "id", 2), ("unused", "id", 1)]:
        row = con.execute(f"INSERT INTO \"{table}\" (t) VALUES ('new') RETURNING \"{key}\"").fetchone()
        assert row == (number,), table


def test_each_problem_is_named(path: Path, con: indelible.Connection) -> None:
    file = made(
        path,
        """
        CREATE TABLE t (a INTEGER, b TEXT COLLATE NOCASE, c DEFAULT (1 + random()));
        INSERT INTO t VALUES ('x', 'y', 1);
        CREATE INDEX folded ON t (b);
        CREATE INDEX lowered ON t (lower(b));
        CREATE VIEW v AS SELECT julianday('now') AS j;
        CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END;
        """,
    )
    with pytest.raises(indelible.NotSupportedError) as raised:
        indelible.import_sqlite(con, file, types={"t.z": "text"})
    message = str(raised.value)
    for problem in ["column t.a", "column t.c", "collation NOCASE", "index folded", "lowered", "view v", "trigger g", "t.z"]:
        assert f"{problem}" in message
    assert con.execute("SELECT count(*) FROM pg_class WHERE relname = 't'").fetchone() == (0,)
    con.rollback()
    assert indelible.import_sqlite(con, file, types={"t.a": "text"}, skip=True) == {"t": 1}
    assert con.execute("SELECT * FROM t").fetchall() == [("x", "y", 1)]


def test_rows_that_do_not_fit(path: Path, con: indelible.Connection) -> None:
    file = made(path, "CREATE TABLE t (d DATE); INSERT INTO t VALUES ('soon');")
    with pytest.raises(indelible.DataError, match="table t: .*soon"):
        indelible.import_sqlite(con, file)
    con.rollback()
    assert indelible.import_sqlite(con, file, types={"t.d": "text"}) == {"t": 1}
    with pytest.raises(indelible.ProgrammingError, match="there is no file"):
        indelible.import_sqlite(con, path / "missing")
    con.rollback()
    (path.parent / "text").write_text("no database")
    with pytest.raises(indelible.ProgrammingError, match="cannot be read"):
        indelible.import_sqlite(con, path.parent / "text")


def test_defaults_are_those_of_the_column(path: Path, con: indelible.Connection) -> None:
    """`BOOLEAN DEFAULT 0` is of no type here, and ended the import."""
    file = made(
        path,
        """
        CREATE TABLE t (
            id INTEGER PRIMARY KEY, a BOOLEAN DEFAULT 0, b BOOLEAN DEFAULT TRUE, c INTEGER DEFAULT '5',
            d TEXT DEFAULT 7, e TEXT DEFAULT "it""s", f BLOB DEFAULT x'00FF', g REAL DEFAULT +1e2,
            h NUMERIC DEFAULT -.5, i DATE DEFAULT '2024-02-29', j TEXT DEFAULT NULL,
            k TIMESTAMP DEFAULT CURRENT_TIMESTAMP
        );
        """,
    )
    assert indelible.import_sqlite(con, file) == {"t": 0}
    con.execute("INSERT INTO t DEFAULT VALUES")
    row = con.execute("SELECT a, b, c, d, e, f, g, h::text, i::text, j, k IS NULL FROM t").fetchone()
    assert row == (False, True, 5, "7", 'it"s', b"\x00\xff", 100.0, "-0.5", "2024-02-29", None, False)
    con.rollback()


def test_defaults_that_do_not_fit_are_problems(path: Path, con: indelible.Connection) -> None:
    file = made(
        path,
        """
        CREATE TABLE u (
            a INTEGER DEFAULT 'x', b DATE DEFAULT 'soon', c BLOB DEFAULT 'text', d TEXT DEFAULT x'00',
            e INTEGER DEFAULT CURRENT_TIMESTAMP, f BOOLEAN DEFAULT 2
        );
        INSERT INTO u VALUES (1, NULL, NULL, NULL, NULL, NULL);
        """,
    )
    with pytest.raises(indelible.NotSupportedError) as raised:
        indelible.import_sqlite(con, file)
    for column in "abcdef":
        assert f"column u.{column}: its default" in str(raised.value)
    con.rollback()
    assert indelible.import_sqlite(con, file, skip=True) == {"u": 1}


def test_numbers_keep_their_digits(path: Path, con: indelible.Connection) -> None:
    """SQLite keeps all digits of a `DECIMAL(10, 2)`, and the import rounded them."""
    file = made(
        path,
        """
        CREATE TABLE t (a DECIMAL(10, 2), b NUMERIC(4), c, d, e JSON, f "BIG INT", g "JSON INT");
        INSERT INTO t VALUES (1.005, 123456.75, 1, 1, '{}', 5, 6), (2, 1, 2.5, 'x', NULL, NULL, NULL);
        """,
    )
    assert indelible.import_sqlite(con, file) == {"t": 2}
    found = con.execute("SELECT a::text, b::text, c::text, d FROM t ORDER BY f").fetchall()
    assert found == [("1.005", "123456.75", "1", "1"), ("2", "1", "2.5", "x")]
    types = con.execute(
        "SELECT string_agg(data_type, ',' ORDER BY ordinal_position) FROM information_schema.columns"
        " WHERE table_name = 't'"
    ).fetchone()
    assert types == ("numeric,numeric,numeric,text,text,bigint,bigint",)


def test_tables_beside_virtual_ones_come(path: Path, con: indelible.Connection) -> None:
    """Tables whose name begins with that of a virtual one were left out, and nobody was told."""
    file = made(
        path,
        """
        CREATE VIRTUAL TABLE note USING fts4 (body);
        CREATE TABLE note_author (name TEXT);
        INSERT INTO note_author VALUES ('x');
        """,
    )
    with pytest.raises(indelible.NotSupportedError, match="table note: it is virtual"):
        indelible.import_sqlite(con, file)
    con.rollback()
    assert indelible.import_sqlite(con, file, skip=True) == {"note_author": 1}
