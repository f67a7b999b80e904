"""`indelible.join` beside `polars.DataFrame.join`, in one process, in turns.

    python crates/python/bench/join.py [ROWS] [ROUNDS]

Both sides have ROWS distinct int64 keys in random order and an int64 column; each key of one side
has one partner. Both return a table with three columns. The best times are compared: on the clock, and of the
processors of all threads, which other programs on the machine disturb less.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl
import pyarrow as pa

import indelible


def main(rows: str = "16000000", rounds: str = "3") -> None:
    count = int(rows)
    chance = np.random.default_rng(1)
    left, right = (
        pa.table({"k": chance.permutation(count), name: np.arange(count)}) for name in ("a", "b")
    )
    frames = [pl.DataFrame(side) for side in (left, right)]
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(int(rounds)):
        start = now()
        found = indelible.join(left, right, on="k")
        ours.append(since(start))
        assert found.num_rows == count
        del found
        start = now()
        frame = frames[0].join(frames[1], on="k")
        theirs.append(since(start))
        assert frame.height == count
        del frame
    print(f"{count} x {count} int64 keys, {pl.thread_pool_size()} threads, polars {pl.__version__}:")
    for at, name in enumerate(("clock", "processor")):
        one, other = (min(times[at] for times in side) for side in (ours, theirs))
        print(f"{name}: indelible {one:.2f} s, polars {other:.2f} s, ratio {other / one:.2f}")


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> tuple[float, float]:
    took, used = now()
    return took - start[0], used - start[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
