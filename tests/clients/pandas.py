"""pandas: frames to tables and back by `to_sql` and `read_sql`, with each kind of column, in pieces, appended and replaced."""

import os

import numpy as np
import pandas as pd
import sqlalchemy as sa

engine = sa.create_engine(f"postgresql+psycopg://tester@127.0.0.1:{os.environ['PGPORT']}/db")
rows = 2000
frame = pd.DataFrame(
    {
        "id": np.arange(rows, dtype="int64"),
        "small": np.arange(rows, dtype="int16"),
        "x": np.linspace(0, 1, rows),
        "name": [f"näme {i}" if i % 7 else None for i in range(rows)],
        "yes": np.arange(rows) % 2 == 0,
        "at": pd.date_range("2024-01-01", periods=rows, freq="h"),
        "zone": pd.date_range("2024-01-01", periods=rows, freq="h", tz="UTC"),
        "maybe": pd.array([i if i % 3 else None for i in range(rows)], dtype="Int64"),
    }
)
frame.to_sql("frame", engine, index=False)
found = pd.read_sql_table("frame", engine)
assert list(found.columns) == list(frame.columns)
for name in ("id", "x", "yes"):
    assert found[name].equals(frame[name]), name
assert (found["small"] == frame["small"]).all()
assert found["name"].isna().sum() == frame["name"].isna().sum()
assert (found["at"] == frame["at"]).all() and (found["zone"] == frame["zone"]).all()
assert found["maybe"].sum() == frame["maybe"].sum()
frame.to_sql("frame", engine, index=False, if_exists="append", method="multi", chunksize=500)
sums = pd.read_sql("SELECT yes, count(*) AS n, avg(x) AS mean FROM frame GROUP BY yes ORDER BY yes", engine)
assert sums["n"].tolist() == [rows, rows], sums
one = pd.read_sql_query(sa.text("SELECT name FROM frame WHERE id = :id LIMIT 1"), engine, params={"id": 5})
assert one.iloc[0, 0] == "näme 5"
with engine.connect().execution_options(stream_results=True) as connection:
    pieces = [len(piece) for piece in pd.read_sql("SELECT * FROM frame", connection, chunksize=1500)]
assert pieces == [1500, 1500, 1000], pieces
types = {"id": sa.BigInteger, "x": sa.Numeric(20, 10), "name": sa.String(40)}
frame[["id", "x", "name"]].set_index("id").to_sql("frame", engine, if_exists="replace", dtype=types)
columns = {column["name"]: str(column["type"]) for column in sa.inspect(engine).get_columns("frame")}
assert columns == {"id": "BIGINT", "x": "NUMERIC(20, 10)", "name": "VARCHAR(40)"}, columns
indexes = [index["column_names"] for index in sa.inspect(engine).get_indexes("frame")]
assert indexes == [["id"]], indexes
assert len(pd.read_sql_table("frame", engine, index_col="id", columns=["x"])) == rows
