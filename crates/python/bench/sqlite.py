"""Speed beside the standard library's `sqlite3`, on the same medium in the same run.

    python crates/python/bench/sqlite.py DIRECTORY [ROWS]

SQLite has `journal_mode=WAL` and `synchronous=FULL`. Each measurement runs on both in turns, three
times, and the best times are compared. The interpreter's share is that of the same loop over a
function that does nothing.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import indelible

ROUNDS = 3


class Ours:
    def __init__(self, directory: Path) -> None:
        self.con = indelible.connect(directory, autocommit=True)
        self.con.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL)")
        self.cursor = self.con.cursor()

    def many(self, rows: list[tuple[int, str]]) -> None:
        with self.con.transaction():
            self.cursor.executemany("INSERT INTO t VALUES (?, ?)", rows)


class SQLite:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.con = sqlite3.connect(directory / "sqlite.db", isolation_level=None)
        self.con.execute("PRAGMA journal_mode=WAL")
        self.con.execute("PRAGMA synchronous=FULL")
        self.con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL)")
        self.cursor = self.con.cursor()

    def many(self, rows: list[tuple[int, str]]) -> None:
        self.con.execute("BEGIN")
        self.cursor.executemany("INSERT INTO t VALUES (?, ?)", rows)
        self.con.execute("COMMIT")


def inserts(database: Any, count: int) -> None:
    execute = database.cursor.execute
    for at in range(count):
        execute("INSERT INTO t VALUES (?, ?)", (at, "a value of some length"))


def selects(database: Any, count: int) -> None:
    execute = database.cursor.execute
    for at in range(count):
        row = execute("SELECT v FROM t WHERE id = ?", (at,)).fetchone()
        assert row is not None


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def main(directory: str, rows: str = "100000") -> None:
    root, count = Path(directory) / "indelible-bench-python", int(rows)
    values = [(at, "a value of some length") for at in range(count)]
    kinds: list[tuple[str, type[Any]]] = [("indelible", Ours), ("sqlite3", SQLite)]
    times: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for name, kind in kinds:
            shutil.rmtree(root, ignore_errors=True)
            own = times.setdefault(name, {})
            for what, work in [
                (f"{count // 5} inserts, a transaction each", lambda db: inserts(db, count // 5)),
                (f"executemany of {count} rows", lambda db: db.many(values)),
            ]:
                database = kind(root / what.split()[0])
                start = time.perf_counter()
                work(database)
                took = time.perf_counter() - start
                own[what] = min(took, own.get(what, took))
            what = f"{count} point selects"
            start = time.perf_counter()
            selects(database, count)
            took = time.perf_counter() - start
            own[what] = min(took, own.get(what, took))
            database.con.close()
    start = time.perf_counter()

    class Nothing:
        def execute(self, text: str, values: tuple[Any, ...]) -> Nothing:
            return self

        def fetchone(self) -> tuple[int]:
            return (1,)

    loop = type("Loop", (), {"cursor": Nothing()})()
    selects(loop, count)
    empty = time.perf_counter() - start
    shutil.rmtree(root, ignore_errors=True)
    for what, ours in times["indelible"].items():
        theirs = times["sqlite3"][what]
        print(f"{what}: indelible {ours:.3f} s, sqlite3 {theirs:.3f} s, ratio {theirs / ours:.2f}")
    print(f"the loop of the selects without a database: {empty:.3f} s")

    con = indelible.connect(root / "arrow", autocommit=True)
    for what in ["g AS a, g * 2 AS b, g * 0.5::float8 AS c"]:
        start = time.perf_counter()
        table = con.execute(f"SELECT {what} FROM generate_series(1, {100 * count}::bigint) g").fetch_arrow_table()
        took = time.perf_counter() - start
        rate = table.nbytes / took / 1e9
        print(f"{table.num_rows} rows as Arrow, {table.nbytes / 1e6:.0f} MB: {took:.2f} s, {rate:.2f} GB/s")
    con.close()
    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
