#!/usr/bin/env bash
# go-tpc: TPC-C with one warehouse. Its consistency conditions hold after loading (all twelve) and after transactions of four
# threads (those that transactions keep).
set -euo pipefail
tpcc=("$1/go-tpc" tpcc --driver postgres --host "$PGHOST" --port "$PGPORT" --user "$PGUSER" --db "$PGDATABASE"
  --conn-params sslmode=disable --warehouses 1)
"${tpcc[@]}" prepare --threads 2 --no-check
"${tpcc[@]}" check --check-all
"${tpcc[@]}" run --threads 4 --count 1000 | tee "$PGSOCKET.go-tpc"
# Each kind of transaction ran, and none failed.
for kind in NEW_ORDER PAYMENT ORDER_STATUS DELIVERY STOCK_LEVEL; do
  grep -q "^\[Summary\] $kind - " "$PGSOCKET.go-tpc"
done
if grep -q '_ERR' "$PGSOCKET.go-tpc"; then exit 1; fi
"${tpcc[@]}" check
"${tpcc[@]}" cleanup
test "$(psql -XAt -c "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")" = 0
