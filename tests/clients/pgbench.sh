#!/usr/bin/env bash
# pgbench: initialization in its ways, and each protocol with each script; then its sums agree.
set -euo pipefail
pgbench -q -i -s 1
# Vacuum, the look for partitions, and an empty history before a run.
pgbench -M prepared -c 2 -t 20 | grep -F 'actually processed: 40/40'
pgbench -q -i -I dtGvpf -s 1
for protocol in simple extended prepared; do
  for script in tpcb-like simple-update select-only; do
    pgbench -n -M "$protocol" -b "$script" -c 4 -j 2 -t 50 | grep -F 'number of transactions actually processed: 200/200'
  done
done
cat >"${TMPDIR:-/tmp}/pipeline.$$" <<'END'
\set aid random(1, 100000)
\set delta random(-5000, 5000)
\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = 1;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid, :delta, CURRENT_TIMESTAMP);
END;
\endpipeline
END
for protocol in extended prepared; do
  pgbench -n -M "$protocol" -c 4 -t 50 -f "${TMPDIR:-/tmp}/pipeline.$$" | grep -F 'actually processed: 200/200'
done
rm "${TMPDIR:-/tmp}/pipeline.$$"
psql -At -v ON_ERROR_STOP=1 <<'END' | grep -Fx t
SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
   AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches);
END
