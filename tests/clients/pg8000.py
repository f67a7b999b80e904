"""pg8000: a driver in Python alone, with text values in the extended protocol."""

import datetime
import decimal
import os

import pg8000.dbapi
import pg8000.native

options = dict(user="tester", host="127.0.0.1", port=int(os.environ["PGPORT"]), database="db")
con = pg8000.native.Connection(**options)
con.run("CREATE TABLE v (id int PRIMARY KEY, t text, n numeric, d date, a int[])")
con.run(
    "INSERT INTO v VALUES (:id, :t, :n, :d, :a)",
    id=1, t="tëxt", n=decimal.Decimal("1.50"), d=datetime.date(2024, 2, 29), a=[1, 2],
)
assert con.run("SELECT * FROM v") == [[1, "tëxt", decimal.Decimal("1.50"), datetime.date(2024, 2, 29), [1, 2]]]
statement = con.prepare("SELECT t FROM v WHERE id = :id")
assert statement.run(id=1) == [["tëxt"]] and statement.run(id=2) == []
statement.close()
try:
    con.run("INSERT INTO v (id) VALUES (1)")
    raise AssertionError("a key twice")
except pg8000.native.DatabaseError as error:
    assert error.args[0]["C"] == "23505", error
con.close()

con = pg8000.dbapi.connect(**options)
cursor = con.cursor()
cursor.execute("INSERT INTO v (id) VALUES (%s)", (2,))
con.rollback()
cursor.execute("SELECT count(*) FROM v")
assert cursor.fetchone() == [1]
con.commit()
con.close()
