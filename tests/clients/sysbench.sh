#!/usr/bin/env bash
# sysbench: its OLTP scripts with prepared statements and without, and each ends with tables that are whole.
set -euo pipefail
common=(--db-driver=pgsql --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" --pgsql-user="$PGUSER" --pgsql-password=x --pgsql-db="$PGDATABASE"
  --tables=2 --table-size=2000 --threads=4 --events=400 --time=0)
sysbench oltp_read_write "${common[@]}" prepare
for script in oltp_point_select oltp_read_only oltp_write_only oltp_read_write oltp_update_index oltp_update_non_index \
  oltp_delete oltp_insert select_random_points select_random_ranges; do
  for mode in auto disable; do
    # Inserted keys follow those that are there; deleted ones come again by the next writes.
    sysbench "$script" "${common[@]}" --db-ps-mode="$mode" --skip-trx=off run >"$PGSOCKET.$script"
    grep -q 'events: *400' "$PGSOCKET.$script" || grep -Eq 'total number of events: *400' "$PGSOCKET.$script"
  done
done
for table in sbtest1 sbtest2; do
  wrong="$(psql -XAt -c "SELECT count(*) FROM $table WHERE k IS NULL OR length(c) <> 119 AND length(c) <> 120")"
  test "$wrong" = 0
done
sysbench oltp_read_write "${common[@]}" cleanup
sysbench bulk_insert "${common[@]}" prepare
sysbench bulk_insert "${common[@]}" run >/dev/null
sysbench bulk_insert "${common[@]}" cleanup
