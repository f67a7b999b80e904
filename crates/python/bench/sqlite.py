"""Speed beside the standard library's `sqlite3`, on the same medium in the same run.

    python crates/python/bench/sqlite.py DIRECTORY [ROWS]

SQLite has `journal_mode=WAL` and `synchronous=FULL`. Each measurement runs on both in turns, three
times, and the best times are compared: on the clock, and of the thread's processor, which other
programs on the machine disturb less. The interpreter's share is that of the same loop over a function
that does nothing.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from functools import partial
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

    def new(self, rows: list[tuple[int, str]]) -> None:
        with self.con.transaction():
            self.con.execute("CREATE TABLE u (id bigint PRIMARY KEY, v text NOT NULL)")
            self.cursor.executemany("INSERT INTO u VALUES (?, ?)", rows)


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

    def new(self, rows: list[tuple[int, str]]) -> None:
        self.con.execute("BEGIN")
        self.con.execute("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT NOT NULL)")
        self.cursor.executemany("INSERT INTO u VALUES (?, ?)", rows)
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


Times = tuple[float, float]
NEVER = (math.inf, math.inf)


def timed(work: Callable[[], object], best: Times = NEVER) -> Times:
    """Seconds on the clock and of the thread's processor, or the best ones so far."""
    start, begun = time.perf_counter(), time.thread_time()
    work()
    took, used = time.perf_counter() - start, time.thread_time() - begun
    return min(took, best[0]), min(used, best[1])


def main(directory: str, rows: str = "100000") -> None:
    root, count = Path(directory) / "indelible-bench-python", int(rows)
    values = [(at, "a value of some length") for at in range(count)]
    kinds: list[tuple[str, type[Any]]] = [("indelible", Ours), ("sqlite3", SQLite)]
    times: dict[str, dict[str, Times]] = {}
    for _ in range(ROUNDS):
        for name, kind in kinds:
            shutil.rmtree(root, ignore_errors=True)
            own = times.setdefault(name, {})
            for what, work in [
                (f"{count // 5} inserts, a transaction each", lambda db: inserts(db, count // 5)),
                (f"executemany of {count} rows", lambda db: db.many(values)),
                (f"new table and executemany of {count} rows", lambda db: db.new(values)),
            ]:
                database = kind(root / what.split()[0])
                own[what] = timed(partial(work, database), own.get(what, NEVER))
            database.many(values)
            what = f"{count} point selects"
            own[what] = timed(partial(selects, database, count), own.get(what, NEVER))
            database.con.close()

    class Nothing:
        def execute(self, text: str, values: tuple[Any, ...]) -> Nothing:
            return self

        def fetchone(self) -> tuple[int]:
            return (1,)

    loop = type("Loop", (), {"cursor": Nothing()})()
    empty = timed(lambda: selects(loop, count))
    shutil.rmtree(root, ignore_errors=True)
    for what, ours in times["indelible"].items():
        theirs = times["sqlite3"][what]
        for name, one, other in zip(("clock", "processor"), ours, theirs, strict=True):
            ratio = f"ratio {other / one:.2f}"
            print(f"{what}, {name}: indelible {one:.3f} s, sqlite3 {other:.3f} s, {ratio}")
    print(f"the loop of the selects without a database, processor: {empty[1]:.3f} s")

    con = indelible.connect(root / "arrow", autocommit=True)
    columns = "g AS a, g * 2 AS b, g * 0.5::float8 AS c"
    text = f"SELECT {columns} FROM generate_series(1, {100 * count}::bigint) g"
    # The first call imports pyarrow.
    con.execute("SELECT 1 AS a").fetch_arrow_table()
    start, begun = time.perf_counter(), time.thread_time()
    table = con.execute(text).fetch_arrow_table()
    took, used = time.perf_counter() - start, time.thread_time() - begun
    rates = f"{table.nbytes / took / 1e9:.2f} GB/s, by the processor {table.nbytes / used / 1e9:.2f}"
    print(f"{table.num_rows} rows as Arrow, {table.nbytes / 1e6:.0f} MB: {took:.2f} s, {rates}")
    con.close()
    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
