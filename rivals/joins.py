"""One engine of `rivals bench join`: loads two relations, says when it is ready, and runs the join at each line `run`.

The program writes r_key, r_payload, s_key and s_payload as raw little-endian files and starts this script once for each engine:
    python joins.py ENGINE DIRECTORY BYTES_OF_A_VALUE THREADS
Every answer is a line of JSON: {"ready": ...} once, {"seconds": ...} for each run, or {"missing": ...} and {"error": ...} instead.

Columns are in the engine's own form before it is ready, so that a run times nothing but the query. Sums are told modulo 2^64.
"""

import ctypes
import json
import os
import sys
import time

BATCH_ROWS = 8192
QUERY = "SELECT count(*), sum(r.payload), sum(s.payload) FROM r JOIN s ON r.key = s.key"


class DataFusion:
    """Arrow record batches in a MemTable, divided evenly among as many partitions as there are threads."""

    def __init__(self, threads, relations):
        os.environ["TOKIO_WORKER_THREADS"] = str(threads)
        import datafusion
        import pyarrow

        self.version = datafusion.__version__
        self.setting = f"MemTable of record batches of {BATCH_ROWS} rows, target_partitions {threads}, else as installed"
        config = datafusion.SessionConfig().with_target_partitions(threads).with_batch_size(BATCH_ROWS)
        self.context = datafusion.SessionContext(config)
        for name, columns in relations():
            batches = pyarrow.table(columns).to_batches(max_chunksize=BATCH_ROWS)
            share = max(1, -(-len(batches) // threads))
            partitions = [batches[at : at + share] for at in range(0, len(batches), share)]
            self.context.register_record_batches(name, partitions)

    def run(self):
        batch = self.context.sql(QUERY).collect()[0]
        return [column[0].as_py() for column in batch.columns]


class DuckDb:
    """Tables of an in-memory database that may not spill to disk."""

    def __init__(self, threads, relations):
        import duckdb
        import pyarrow

        self.version = duckdb.__version__
        self.setting = f"tables of an in-memory database, threads {threads}, no directory to spill to, else as installed"
        self.connection = duckdb.connect(":memory:", config={"threads": threads, "temp_directory": ""})
        self.connection.execute("SET enable_progress_bar = false")
        for name, columns in relations():
            self.connection.register("columns", pyarrow.table(columns))
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM columns")
            self.connection.unregister("columns")

    def run(self):
        return self.connection.execute(QUERY).fetchone()


class Polars:
    """Frames, joined lazily by the engine that executes whole columns."""

    executor = "in-memory"

    def __init__(self, threads, relations):
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars

        self.polars = polars
        self.version = polars.__version__
        self.setting = f"frames, engine {self.executor}, POLARS_MAX_THREADS {threads}, else as installed"
        self.frames = {name: polars.DataFrame(columns) for name, columns in relations()}

    def run(self):
        pl = self.polars
        # Sums of 32-bit columns would be 32 bits wide.
        sums = [pl.col(name).cast(pl.UInt64).sum() for name in ("payload", "payload_s")]
        joined = self.frames["r"].lazy().join(self.frames["s"].lazy(), on="key", suffix="_s")
        return joined.select(pl.len(), *sums).collect(engine=self.executor).row(0)


class PolarsStreaming(Polars):
    """Frames, joined lazily by the engine that executes in pieces."""

    executor = "streaming"


ENGINES = {"datafusion": DataFusion, "duckdb": DuckDb, "polars": Polars, "polars-streaming": PolarsStreaming}


# Answers go to the pipe; whatever an engine prints goes where errors go.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(**fields):
    print(json.dumps(fields), file=answers, flush=True)


def end_with_the_program():
    """Has the kernel end this process when the one that started it is gone, even in the middle of a query."""
    if sys.platform == "linux":
        set_parent_death_signal, kill = 1, 9
        ctypes.CDLL(None).prctl(set_parent_death_signal, kill)


def main(engine, directory, value_bytes, threads):
    end_with_the_program()
    import numpy

    def relations():
        for name in ("r", "s"):
            paths = {column: os.path.join(directory, f"{name}_{column}") for column in ("key", "payload")}
            yield name, {column: numpy.fromfile(path, f"<u{value_bytes}") for column, path in paths.items()}

    loaded = ENGINES[engine](int(threads), relations)
    answer(ready=True, version=loaded.version, setting=loaded.setting)
    for line in sys.stdin:
        if line.strip() != "run":
            continue
        start = time.perf_counter()
        totals = loaded.run()
        seconds = time.perf_counter() - start
        count, r_payload_sum, s_payload_sum = ((total or 0) % 2**64 for total in totals)
        answer(seconds=seconds, count=count, r_payload_sum=r_payload_sum, s_payload_sum=s_payload_sum)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ModuleNotFoundError as error:
        answer(missing=error.name)
    except Exception as error:
        answer(error=f"{type(error).__name__}: {error}")
