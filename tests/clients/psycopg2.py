"""psycopg2: the simple protocol with its literals, transactions, COPY, named cursors, notices."""

import datetime
import decimal
import io

import psycopg2
import psycopg2.extras

con = psycopg2.connect("")
with con, con.cursor() as cursor:
    cursor.execute("CREATE TABLE v (id serial PRIMARY KEY, t text, n numeric, d date, b bytea, a int[])")
    values = ("it's", decimal.Decimal("1.50"), datetime.date(2024, 2, 29), psycopg2.Binary(b"\0'\\"), [1, 2])
    cursor.execute("INSERT INTO v (t, n, d, b, a) VALUES (%s, %s, %s, %s, %s) RETURNING id", values)
    assert cursor.fetchone() == (1,)
    cursor.execute("SELECT t, n, d, b, a FROM v")
    t, n, d, b, a = cursor.fetchone()
    assert (t, n, d, bytes(b), a) == ("it's", decimal.Decimal("1.50"), values[2], b"\0'\\", [1, 2])
    psycopg2.extras.execute_values(cursor, "INSERT INTO v (t) VALUES %s", [(str(i),) for i in range(500)])
    cursor.execute("SELECT count(*) FROM v")
    assert cursor.fetchone() == (501,)
with con, con.cursor() as cursor:
    cursor.copy_expert("COPY v (id, t) FROM STDIN CSV", io.StringIO('1001,"a,b"\n1002,\n'))
    out = io.StringIO()
    cursor.copy_expert("COPY (SELECT id, t FROM v WHERE id > 1000 ORDER BY id) TO STDOUT CSV", out)
    assert out.getvalue() == '1001,"a,b"\n1002,\n', out.getvalue()
with con, con.cursor("named") as cursor:
    cursor.execute("SELECT id FROM v ORDER BY id")
    assert len(cursor.fetchall()) == 503
try:
    with con, con.cursor() as cursor:
        cursor.execute("INSERT INTO v (id) VALUES (1)")
    raise AssertionError("a key twice")
except psycopg2.errors.UniqueViolation:
    pass
with con, con.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
    cursor.execute("SELECT 1 AS one, NULL AS none")
    assert dict(cursor.fetchone()) == {"one": 1, "none": None}
con.close()
