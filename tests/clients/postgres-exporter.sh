#!/usr/bin/env bash
# prometheus-postgres-exporter: one scrape of the server, a line for each metric with its labels, and one for each of its errors.
set -uo pipefail
work="$(mktemp -d)"
trap 'kill "$exporter" 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 20); do
  # A port that was free a moment ago; if another program is faster, the exporter ends and gets another one.
  port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
  DATA_SOURCE_NAME="host=$PGSOCKET port=$PGPORT user=$PGUSER dbname=$PGDATABASE sslmode=disable" \
    prometheus-postgres-exporter --web.listen-address="127.0.0.1:$port" 2>"$work/log" &
  exporter=$!
  for _ in $(seq 50); do
    if python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())' \
      "http://127.0.0.1:$port/metrics" >"$work/metrics" 2>/dev/null; then break 2; fi
    kill -0 "$exporter" 2>/dev/null || break
    sleep 0.1
  done
  kill "$exporter" 2>/dev/null
  wait "$exporter" 2>/dev/null
done
grep '^pg_' "$work/metrics" | sed -E 's/ [^ ]+$//; s/,?(server|short_version|version|datid)="[^"]*"//g; s/\{,/{/' |
  grep -vE 'datname="(postgres|template0|template1|)"'
grep -E 'level=(error|warn)' "$work/log" | sed -E 's/^.*level=/level=/; s/[0-9]+(\.[0-9]+)?(m?s|e[+-][0-9]+)?/N/g'
