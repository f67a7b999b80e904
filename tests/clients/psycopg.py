"""psycopg 3: values both ways in text and binary, prepared statements, pipelines, COPY, cursors, notifications, cancel."""

import datetime
import decimal
import threading
import time
import uuid

import psycopg
from psycopg import errors

with psycopg.connect(autocommit=True) as con:
    con.execute(
        "CREATE TABLE v (id int PRIMARY KEY, t text, n numeric, f float8, b bool, d date, ts timestamp,"
        " tz timestamptz, u uuid, by bytea, j jsonb, a int[])"
    )
    row = (
        1,
        "tëxt",
        decimal.Decimal("12345.678"),
        1.5,
        True,
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, 30, 15, 123456),
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc),
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        b"\x00\xff",
        psycopg.types.json.Jsonb({"a": [1, None]}),
        [1, 2, 3],
    )
    con.execute("INSERT INTO v VALUES (%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s)", row)
    for binary in (False, True):
        found = con.execute("SELECT * FROM v WHERE id = %s", (1,), binary=binary).fetchone()
        assert found[:10] == row[:10], (binary, found)
        assert found[10] == {"a": [1, None]} and found[11] == [1, 2, 3], (binary, found)
    assert con.execute("SELECT %s::text", (None,)).fetchone() == (None,)

    # After five uses a text becomes a prepared statement.
    for number in range(10):
        assert con.execute("SELECT %s::int + 1", (number,)).fetchone() == (number + 1,)

    # One transaction, undone as a whole; a savepoint inside.
    try:
        with con.transaction():
            con.execute("INSERT INTO v (id) VALUES (2)")
            try:
                with con.transaction():
                    con.execute("INSERT INTO v (id) VALUES (1)")
            except errors.UniqueViolation as error:
                assert error.diag.constraint_name == "v_pkey", error.diag.constraint_name
            assert con.execute("SELECT count(*) FROM v").fetchone() == (2,)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert con.execute("SELECT count(*) FROM v").fetchone() == (1,)

    with con.pipeline():
        cursors = [con.execute("SELECT %s::int * 2", (number,)) for number in range(100)]
        assert [cursor.fetchone() for cursor in cursors] == [(number * 2,) for number in range(100)]
    try:
        with con.pipeline():
            con.execute("SELECT 1/0")
            con.execute("SELECT 1")
        raise AssertionError("no error")
    except (errors.DivisionByZero, errors.PipelineAborted):
        # Which of the two is raised depends on when the answers come.
        pass
    assert con.execute("SELECT 1").fetchone() == (1,)

    con.execute("CREATE TABLE c (id int, t text)")
    with con.cursor().copy("COPY c FROM STDIN") as copy:
        for number in range(1000):
            copy.write_row((number, f"row\t{number}\n"))
    assert con.execute("SELECT count(*), max(t) FROM c").fetchone() == (1000, "row\t999\n")
    with con.cursor().copy("COPY (SELECT * FROM c ORDER BY id) TO STDOUT") as copy:
        copied = list(copy.rows())
    assert len(copied) == 1000 and copied[7] == ("7", "row\t7\n"), copied[7]
    with con.cursor().copy("COPY c FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        for number in range(1000):
            copy.write_row((1000 + number, None if number else "first"))
    with con.cursor().copy("COPY (SELECT * FROM c WHERE id >= 1000 ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        copied = list(copy.rows())
    assert len(copied) == 1000 and copied[:2] == [(1000, "first"), (1001, None)], copied[:2]
    con.execute("DELETE FROM c WHERE id >= 1000")
    try:
        with con.cursor().copy("COPY c FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\1")
        raise AssertionError("one field for two columns")
    except errors.BadCopyFileFormat:
        pass
    try:
        with con.cursor().copy("COPY c FROM STDIN") as copy:
            raise KeyError("the client gives up")
    except KeyError:
        pass
    assert con.execute("SELECT count(*) FROM c").fetchone() == (1000,)

    with con.transaction(), con.cursor(name="named") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT id FROM c ORDER BY id")
        assert [number for (number,) in cursor] == list(range(1000))

    notices = []
    con.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    con.execute("DROP TABLE IF EXISTS missing")
    assert notices == ['table "missing" does not exist, skipping'], notices

    # Notifications of others wake a client that waits, and come after a statement of one that does not.
    with psycopg.connect(autocommit=True) as sender:
        con.execute("LISTEN news")
        threading.Thread(target=lambda: (time.sleep(0.3), sender.execute("NOTIFY news, 'later'"))).start()
        sender.execute("SELECT pg_notify('news', 'now')")
        come = [(one.channel, one.payload) for one in con.notifies(timeout=30, stop_after=2)]
        assert come == [("news", "now"), ("news", "later")], come
        con.execute("UNLISTEN *")

    threading.Thread(target=lambda: (time.sleep(0.5), con.cancel())).start()
    start = time.monotonic()
    try:
        con.execute("SELECT pg_sleep(30)")
        raise AssertionError("not cancelled")
    except errors.QueryCanceled:
        assert time.monotonic() - start < 10
    assert con.execute("SELECT 1").fetchone() == (1,)

# A session that another one ends hears why.
with psycopg.connect(autocommit=True) as con, psycopg.connect(autocommit=True) as other:
    assert other.execute("SELECT pg_terminate_backend(%s)", (con.info.backend_pid,)).fetchone() == (True,)
    try:
        con.execute("SELECT 1")
        raise AssertionError("not ended")
    except errors.AdminShutdown:
        pass

# Without autocommit a transaction begins by itself.
with psycopg.connect() as con:
    con.execute("INSERT INTO c VALUES (-1, 'x')")
    con.rollback()
    con.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    assert con.execute("SELECT count(*) FROM c").fetchone() == (1000,)
    assert con.info.server_version >= 150000 and con.info.encoding == "utf-8"

# Two-phase commit: one session prepares, another one ends it; what is prepared has its locks.
with psycopg.connect() as con, psycopg.connect() as other:
    con.tpc_begin(con.xid(7, "global", "branch"))
    con.execute("INSERT INTO c VALUES (-2, 'x')")
    con.tpc_prepare()
    con.close()
    (xid,) = other.tpc_recover()
    assert (xid.format_id, xid.gtrid, xid.bqual, xid.database) == (7, "global", "branch", other.info.dbname), xid
    other.rollback()
    blockers = []

    def look(waiting):
        with psycopg.connect(autocommit=True) as third:
            while not blockers:
                found = third.execute("SELECT pg_blocking_pids(%s)", (waiting,)).fetchone()[0]
                blockers.extend(found)
                time.sleep(0.01)

    looking = threading.Thread(target=look, args=(other.info.backend_pid,), daemon=True)
    try:
        other.execute("SET lock_timeout = '3s'")
        looking.start()
        other.execute("LOCK TABLE c")
        raise AssertionError("it has no locks")
    except errors.LockNotAvailable:
        other.rollback()
    looking.join(5)
    assert blockers == [0], blockers
    other.tpc_commit(xid)
    assert other.tpc_recover() == []
    assert other.execute("SELECT count(*) FROM c WHERE id = -2").fetchone() == (1,)
    other.rollback()
    other.tpc_begin("plain")
    other.execute("DELETE FROM c")
    other.tpc_prepare()
    other.tpc_rollback()
    assert other.execute("SELECT count(*) FROM c").fetchone() == (1001,)
    other.rollback()
    other.tpc_begin("at once")
    other.execute("DELETE FROM c WHERE id = -2")
    other.tpc_commit()
    assert other.execute("SELECT count(*) FROM c").fetchone() == (1000,)
