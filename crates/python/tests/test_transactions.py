"""Goal: transactions end as they are told to, and wrong use is one exception.

Method: two connections look at each other's work; threads, forks and interrupts meet calls that
run.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import indelible

SLOW = "SELECT count(*) FROM generate_series(1, 100000000) a"


@pytest.fixture
def other(path: Path, con: indelible.Connection) -> indelible.Connection:
    con.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)")
    con.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
    con.commit()
    return indelible.connect(path)


def count(con: indelible.Connection) -> int:
    row = con.execute("SELECT count(*) FROM t").fetchone()
    con.commit()
    assert row is not None
    return int(row[0])


def test_a_transaction_begins_by_itself(
    con: indelible.Connection, other: indelible.Connection
) -> None:
    con.execute("INSERT INTO t VALUES (3, 0)")
    assert con.in_transaction
    assert count(other) == 2
    con.commit()
    assert not con.in_transaction
    assert count(other) == 3
    con.execute("DELETE FROM t")
    con.rollback()
    assert count(other) == 3


def test_blocks(con: indelible.Connection, other: indelible.Connection) -> None:
    with con:
        con.execute("INSERT INTO t VALUES (3, 0)")
    with pytest.raises(ZeroDivisionError), con:
        con.execute("INSERT INTO t VALUES (4, 0)")
        raise ZeroDivisionError
    with con.transaction("serializable"):
        con.execute("INSERT INTO t VALUES (5, 0)")
        with pytest.raises(indelible.IntegrityError), con.savepoint():
            con.execute("INSERT INTO t VALUES (6, 0)")
            con.execute("INSERT INTO t VALUES (5, 0)")
    assert count(other) == 4


def test_a_failed_transaction_is_not_committed(
    con: indelible.Connection, other: indelible.Connection
) -> None:
    con.execute("INSERT INTO t VALUES (3, 0)")
    with pytest.raises(indelible.ProgrammingError):
        con.execute("SELECT nothing FROM t")
    # It never ran, so the transaction goes on.
    con.execute("INSERT INTO t VALUES (4, 0)")
    with pytest.raises(indelible.IntegrityError):
        con.execute("INSERT INTO t VALUES (4, 0)")
    with pytest.raises(indelible.InternalError) as raised:
        con.execute("SELECT 1")
    assert raised.value.sqlstate == "25P02"
    with pytest.raises(indelible.InternalError, match="rolled back"):
        con.commit()
    assert not con.in_transaction
    assert count(other) == 2


def test_autocommit(path: Path, other: indelible.Connection) -> None:
    con = indelible.connect(path, autocommit=True)
    con.execute("INSERT INTO t VALUES (3, 0)")
    assert count(other) == 3
    con.execute("BEGIN")
    con.execute("INSERT INTO t VALUES (4, 0)")
    with pytest.raises(indelible.ProgrammingError, match="transaction is open"):
        con.autocommit = False
    con.execute("ROLLBACK")
    con.autocommit = False
    assert count(other) == 3


def test_retries(con: indelible.Connection, other: indelible.Connection) -> None:
    """Each of two connections reads what the other one writes."""
    barrier = threading.Barrier(2)
    tries = []

    def swap(connection: indelible.Connection, read: int, write: int) -> None:
        def body(connection: indelible.Connection) -> None:
            tries.append(read)
            row = connection.execute("SELECT b FROM t WHERE a = ?", (read,)).fetchone()
            assert row is not None
            if len(tries) <= 2:
                barrier.wait(10)
            connection.execute("UPDATE t SET b = ? WHERE a = ?", (row[0] + 1, write))

        connection.run(body, isolation="serializable")

    thread = threading.Thread(target=swap, args=(other, 2, 1))
    thread.start()
    swap(con, 1, 2)
    thread.join()
    assert len(tries) > 2
    assert sorted(con.execute("SELECT b FROM t").fetchall()) == [(1,), (2,)]


def test_a_snapshot_stays(con: indelible.Connection, other: indelible.Connection) -> None:
    with con.snapshot() as moment:
        other.execute("DELETE FROM t")
        other.commit()
        assert moment.execute("SELECT count(*) FROM t").fetchone() == (2,)
        with pytest.raises(indelible.Error) as raised:
            moment.execute("INSERT INTO t VALUES (9, 9)")
        assert raised.value.sqlstate == "25006"
        moment.rollback()
    assert count(con) == 0


def test_threads_share_a_connection(con: indelible.Connection) -> None:
    con.execute("CREATE TABLE n (a integer)")

    def insert() -> None:
        for at in range(200):
            con.execute("INSERT INTO n VALUES (?)", (at,))

    threads = [threading.Thread(target=insert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert con.execute("SELECT count(*) FROM n").fetchone() == (800,)


def test_other_threads_run_meanwhile(con: indelible.Connection) -> None:
    ended = threading.Event()

    def interrupt() -> None:
        # Both the count and this thread run, so the interpreter's lock is free.
        for _ in range(20):
            time.sleep(0.01)
        ended.set()
        con.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(indelible.OperationalError) as raised:
        con.execute(SLOW)
    thread.join()
    assert ended.is_set()
    assert raised.value.sqlstate == "57014"
    con.rollback()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_ctrl_c(con: indelible.Connection) -> None:
    # A shell that runs something in the background lets it ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            con.execute(SLOW)
        timer.join()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    con.rollback()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_a_cursor_is_one_threads(con: indelible.Connection) -> None:
    cursor = con.cursor()
    thread = threading.Thread(target=lambda: cursor.execute("SELECT pg_sleep(0.5)"))
    thread.start()
    time.sleep(0.2)
    for call in (cursor.fetchone, lambda: cursor.rowcount, lambda: cursor.execute("SELECT 1")):
        with pytest.raises(indelible.InterfaceError, match="in use by another thread"):
            call()
    thread.join()
    assert len(cursor.fetchall()) == 1


def test_closed_handles(con: indelible.Connection) -> None:
    cursor = con.execute("SELECT 1")
    cursor.close()
    cursor.close()
    with pytest.raises(indelible.InterfaceError, match="cursor is closed"):
        cursor.fetchone()
    cursor = con.execute("SELECT 1")
    con.close()
    con.close()
    for call in (cursor.fetchone, con.commit, con.cursor, con.verify, lambda: con.execute("SELECT 1")):
        with pytest.raises(indelible.InterfaceError, match="connection is closed"):
            call()


def test_the_last_close_closes_the_database(path: Path, con: indelible.Connection) -> None:
    """Handles of closed connections hold nothing: a database may be opened elsewhere, or removed."""
    con.execute("CREATE TABLE t (a integer)")
    con.commit()
    reader = con.execute("SELECT a FROM t")
    stream = con.execute("SELECT a FROM t").fetch_record_batch_reader()
    look = "import indelible, sys; print(indelible.connect(sys.argv[1]).execute('TABLE t').fetchall())"
    command = [sys.executable, "-c", look, str(path)]
    other = indelible.connect(path)
    con.close()
    assert "in use" in subprocess.run(command, capture_output=True, text=True).stderr
    other.close()
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[]\n"
    shutil.rmtree(path)
    with indelible.connect(path) as anew:
        anew.execute("CREATE TABLE t (a integer)")
    del reader, stream


def test_a_child_of_fork_changes_nothing(path: Path, con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer)")
    con.commit()
    child = os.fork()
    if child == 0:
        try:
            con.execute("INSERT INTO t VALUES (1)")
        except indelible.OperationalError as error:
            is_told = error.sqlstate == "55006" and "forked" in str(error)
            con.close()
            os._exit(0 if is_told else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    con.execute("INSERT INTO t VALUES (2)")
    con.commit()
    assert con.execute("SELECT a FROM t").fetchall() == [(2,)]
    assert con.verify() >= 1


def test_a_stream_without_its_connection_keeps_the_database_open(path: Path) -> None:
    """Nobody had the connection any more, but its process could not connect: the database was in use."""

    def stream() -> object:
        con = indelible.connect(path)
        return con.execute("SELECT g FROM generate_series(1, 3000) g").fetch_record_batch_reader(100)

    reader: Any = stream()
    gc.collect()
    with indelible.connect(path) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)
    other.close()
    assert reader.read_all().num_rows == 3000
    del reader
    gc.collect()
    look = "import indelible, sys; print(indelible.connect(sys.argv[1]).execute('SELECT 2').fetchall())"
    command = [sys.executable, "-c", look, str(path)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[(2,)]\n"


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(indelible.Error, match="there is no database"):
        indelible.connect(tmp_path / "missing", create=False)
    with pytest.raises(indelible.Error, match="nonsense"):
        indelible.connect(tmp_path / "new", method="nonsense")
    (tmp_path / "file").write_text("text")
    with pytest.raises(indelible.Error):
        indelible.connect(tmp_path / "file")
    # It made directories of these names.
    for name in [":memory:", "postgres://localhost/shop"]:
        with pytest.raises(indelible.ProgrammingError, match="is no directory"):
            indelible.connect(name)


def test_read_only(path: Path, con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer)")
    con.commit()
    with pytest.raises(indelible.OperationalError, match="read_only"):
        indelible.connect(path, read_only=True)
    con.close()
    del con


def test_backup(path: Path, tmp_path: Path, con: indelible.Connection) -> None:
    con.execute("CREATE TABLE t (a integer PRIMARY KEY)")
    con.executemany("INSERT INTO t VALUES (?)", [(at,) for at in range(1000)])
    con.commit()
    stages: list[str] = []
    report = con.backup(tmp_path / "backup", progress=lambda stage, *_: stages.append(stage))
    assert report["rows"] >= 1000 and "rows" in stages
    assert indelible.check_backup(tmp_path / "backup")["content"] == report["content"]
    indelible.restore(tmp_path / "backup", tmp_path / "copy", method="full-page-writes")
    copy = indelible.connect(tmp_path / "copy")
    assert copy.method == "full-page-writes"
    assert copy.execute("SELECT sum(a) FROM t").fetchone() == (499500,)
    copy.close()

    def fails(*_: object) -> None:
        raise RuntimeError("stop")

    calls: list[object] = []
    with pytest.raises(RuntimeError, match="stop"):
        con.backup(tmp_path / "second", progress=lambda *of: fails(calls.append(of)))
    assert len(calls) == 1 and not list(tmp_path.glob("second*"))


def test_a_savepoint_without_a_transaction_is_one(
    path: Path, con: indelible.Connection, other: indelible.Connection
) -> None:
    """Its transaction was begun and never ended, so a later close lost all that came after it."""
    own = indelible.connect(path, autocommit=True)
    with own.savepoint():
        own.execute("INSERT INTO t VALUES (3, 0)")
    assert not own.in_transaction
    with pytest.raises(ZeroDivisionError), own.savepoint():
        own.execute("INSERT INTO t VALUES (4, 0)")
        raise ZeroDivisionError
    assert not own.in_transaction
    with own.transaction():
        with own.savepoint():
            own.execute("INSERT INTO t VALUES (5, 0)")
        assert own.in_transaction
    own.close()
    assert count(other) == 4
    # Where statements begin transactions, the block leaves its one open.
    with con.savepoint():
        con.execute("INSERT INTO t VALUES (6, 0)")
    assert con.in_transaction


def printed(test: str, *arguments: str) -> str:
    """Prints of a program, which hangs if it fails."""
    command = [sys.executable, "-c", test, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_inside_of_a_call_does_not_call(path: Path) -> None:
    """It waited for the call that it was part of."""
    told = printed(
        """
import gc, indelible, sys
con = indelible.connect(sys.argv[1])
con.execute("CREATE TABLE t (a integer)")
con.executemany("INSERT INTO t VALUES (?)", [(at,) for at in range(5000)])
kept = [con.execute("TABLE t")]
def write(block):
    for call in (lambda: con.execute("SELECT 1"), con.commit, con.close, lambda: con.notices):
        try:
            call()
            print("nothing")
        except indelible.InterfaceError as error:
            print(error.sqlstate)
    kept.clear()
    gc.collect()
con.cursor().copy("COPY (SELECT 1) TO STDOUT", write)
try:
    con.cursor().copy("COPY t FROM STDIN", (b"%d\\n" % con.execute("SELECT 1").fetchone() for _ in "a"))
except indelible.InterfaceError as error:
    print(error.sqlstate)
con.rollback()
print(con.execute("SELECT 1").fetchone())
""",
        str(path),
    )
    assert told.split("\n") == ["08003"] * 5 + ["(1,)", ""]


def test_texts_are_free_while_errors_are_made(path: Path) -> None:
    """An error of a text was made while texts were locked, for which another thread waited."""
    told = printed(
        """
import indelible, sys, threading
con = indelible.connect(sys.argv[1])
sys.setswitchinterval(1e-6)
def work():
    for at in range(3000):
        try:
            con.execute(f"SELECT $0, {at}", (1,))
        except indelible.ProgrammingError:
            pass
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
""",
        str(path),
    )
    assert told == "done\n"


@pytest.fixture
def signals() -> Iterator[None]:
    # A shell that runs something in the background lets it ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # An exception in a method that the collector calls is printed and lost, that of a signal too.
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("kind", ["arrow", "many", "all", "load"])
def test_ctrl_c_between_batches(con: indelible.Connection, kind: str) -> None:
    """Rows of Arrow were read to their end, and loops over batches seldom saw the signal."""
    # Some seconds of rows; those that are kept fit into memory.
    rows = {"arrow": 1_000_000_000, "all": 5_000_000, "load": 50_000_000}.get(kind, 0)
    long = f"SELECT g FROM generate_series(1, {rows}) g"
    con.execute("CREATE TABLE t (a integer)")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

    def work() -> None:
        timer.start()
        if kind == "arrow":
            for _ in con.execute(long).fetch_record_batch_reader():
                pass
        elif kind == "many":
            con.executemany("INSERT INTO t VALUES (?)", zip(itertools.count()))
        elif kind == "all":
            con.execute(long).fetchall()
        else:
            con.load("t", con.execute(long))

    with pytest.raises(KeyboardInterrupt):
        try:
            work()
        except Exception as error:
            # The library between the two raises its own exception before Python looks.
            assert "57014" in str(error)
            time.sleep(0)
    timer.join()
    con.rollback()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_a_cursor_that_its_connection_keeps_is_collected(path: Path) -> None:
    class Own(indelible.Connection):
        kept: indelible.Cursor

    con = indelible.connect(path)
    con.__class__ = Own
    assert isinstance(con, Own)
    con.kept = con.execute("SELECT 1")
    gone = weakref.ref(con)
    del con
    gc.collect()
    assert gone() is None


def test_an_interrupt_between_batches(con: indelible.Connection) -> None:
    """It was forgotten when the next batch began."""
    cursor = con.execute("SELECT g FROM generate_series(1, 100000) g")
    con.interrupt()
    with pytest.raises(indelible.OperationalError) as raised:
        cursor.fetchall()
    assert raised.value.sqlstate == "57014"
    con.rollback()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_a_path_is_opened_while_another_thread_closes_it(path: Path) -> None:
    """The directory was in use by the connection that closed, and so could not be opened."""
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                indelible.connect(path, create=False).close()
        except indelible.Error as error:
            failures.append(error)

    indelible.connect(path).close()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    con = indelible.connect(path)
    with con.snapshot():
        pass
    assert con.verify() >= 0
    con.close()
    with pytest.raises(indelible.InterfaceError, match="closed"):
        con.verify()
