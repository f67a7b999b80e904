"""Writes numbers, each in a transaction of its own, and prints each one when it is durable; or
checks that all numbers up to the last one that was printed are there.

    ledger.py write DIRECTORY
    ledger.py check DIRECTORY LAST
"""

from __future__ import annotations

import sys

import indelible


def main(task: str, path: str, acknowledged: str = "0") -> int:
    con = indelible.connect(path, autocommit=True)
    con.execute("CREATE TABLE IF NOT EXISTS ledger (n bigint PRIMARY KEY)")
    count, last = con.execute("SELECT count(*), coalesce(max(n), 0) FROM ledger").fetchall()[0]
    if task == "check":
        con.verify()
        print(f"{count} rows to {last}, acknowledged {acknowledged}")
        return 0 if count == last and last >= int(acknowledged) else 1
    while True:
        last += 1
        con.execute("INSERT INTO ledger VALUES (?)", (last,))
        print(last, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
