"""asyncpg: named statements, binary values both ways, row limits, cursors, COPY, pools, cancel by time-out."""

import asyncio
import datetime
import decimal
import os
import uuid

import asyncpg


async def main():
    con = await asyncpg.connect(host="127.0.0.1", port=int(os.environ["PGPORT"]), user="tester", database="db")
    await con.execute(
        "CREATE TABLE v (id int PRIMARY KEY, t text, n numeric, f float8, b bool, d date, ts timestamp,"
        " tz timestamptz, u uuid, by bytea, a int[])"
    )
    row = (
        1,
        "tëxt",
        decimal.Decimal("-12345.00010"),
        0.1,
        False,
        datetime.date(1999, 12, 31),
        datetime.datetime(1999, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc),
        uuid.uuid4(),
        b"\x00\xff",
        [1, None, 3],
    )
    await con.execute("INSERT INTO v VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)", *row)
    found = await con.fetchrow("SELECT * FROM v WHERE id = $1", 1)
    assert tuple(found) == row, found
    assert await con.fetchval("SELECT count(*) FROM v") == 1
    assert await con.fetchval("SHOW server_encoding") == "UTF8"
    await con.executemany("INSERT INTO v (id, t) VALUES ($1, $2)", [(i, str(i)) for i in range(2, 1001)])
    async with con.transaction():
        seen = [record["id"] async for record in con.cursor("SELECT id FROM v ORDER BY id", prefetch=64)]
    assert seen == list(range(1, 1001))
    statement = await con.prepare("SELECT id, t FROM v WHERE id = $1")
    assert [parameter.name for parameter in statement.get_parameters()] == ["int4"]
    assert [column.name for column in statement.get_attributes()] == ["id", "t"]
    assert (await statement.fetchrow(7))["t"] == "7"
    try:
        await con.execute("INSERT INTO v (id) VALUES ($1)", 1)
        raise AssertionError("a key twice")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "v_pkey"
    try:
        async with con.transaction():
            await con.execute("INSERT INTO v (id) VALUES (2000)")
            raise KeyError
    except KeyError:
        pass
    assert await con.fetchval("SELECT count(*) FROM v") == 1000
    try:
        await con.execute("SELECT pg_sleep(30)", timeout=0.5)
        raise AssertionError("not cancelled")
    except asyncio.TimeoutError:
        pass
    assert await con.fetchval("SELECT 1") == 1
    come = asyncio.Queue()
    await con.add_listener("news", lambda *one: come.put_nowait(one[2:]))
    options = dict(host="127.0.0.1", port=int(os.environ["PGPORT"]), user="tester", database="db")
    sender = await asyncpg.connect(**options)
    await sender.execute("NOTIFY news, 'a'; NOTIFY news, 'b'")
    for payload in ("a", "b"):
        assert await asyncio.wait_for(come.get(), 30) == ("news", payload)
    await sender.close()
    await con.close()
    async with asyncpg.create_pool(min_size=2, max_size=4, **options) as pool:
        values = await asyncio.gather(*(pool.fetchval("SELECT $1::int", i) for i in range(50)))
        assert values == list(range(50))


asyncio.run(main())
