"""`indelible.join` beside `polars.DataFrame.join`, in one process, in turns.

    python crates/python/bench/join.py [ROWS] [ROUNDS]

Both sides have ROWS distinct int64 keys in random order and an int64 column; each key of one side
has one partner. Both return a table with three columns. The best times are compared.
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
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(int(rounds)):
        start = time.perf_counter()
        found = indelible.join(left, right, on="k")
        ours.append(time.perf_counter() - start)
        assert found.num_rows == count
        del found
        start = time.perf_counter()
        frame = frames[0].join(frames[1], on="k")
        theirs.append(time.perf_counter() - start)
        assert frame.height == count
        del frame
    print(f"{count} x {count} int64 keys: indelible {min(ours):.2f} s, polars {pl.__version__} {min(theirs):.2f} s, "
          f"ratio {min(theirs) / min(ours):.2f}; {pl.thread_pool_size()} threads")


if __name__ == "__main__":
    main(*sys.argv[1:])
