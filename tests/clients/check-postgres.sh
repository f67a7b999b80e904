#!/usr/bin/env bash
# check_postgres: each of its actions that asks a server, a line for its verdict.
set -uo pipefail
# Some actions keep files where they run.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
actions=(
  archive_ready autovac_freeze backends 'bloat --exclude=nothing' commitratio connection 'custom_query --query=SELECT%1%AS%result --warning=5'
  'database_size --warning=1TB' dbstats disabled_triggers disk_space hitratio 'index_size --warning=1TB' 'indexes_size --warning=1TB'
  'last_analyze --warning=1d --critical=2d' 'last_autoanalyze --warning=1d --critical=2d' 'last_autovacuum --warning=1d --critical=2d'
  'last_vacuum --warning=1d --critical=2d' locks 'pgagent_jobs --warning=1d' prepared_txns 'query_runtime --queryname=dear --warning=10s'
  'query_time --warning=1h --critical=2h' 'relation_size --warning=1TB' 'replication_slots --warning=1TB' sequence
  'settings_checksum --warning=0' 'table_size --warning=1TB' timesync 'total_relation_size --warning=1TB' 'txn_idle --warning=1h --critical=2h'
  'txn_time --warning=1h --critical=2h' txn_wraparound wal_files
)
for action in "${actions[@]}"; do
  read -ra words <<<"$action"
  found="$(check_postgres --action="${words[@]//%/ }" --host="$PGSOCKET" --port="$PGPORT" --dbuser="$PGUSER" --dbname="$PGDATABASE" 2>&1 | head -1)"
  case "$found" in
    POSTGRES_*) echo "${words[0]}: $(sed -E 's/^POSTGRES_[A-Z_]+ ([A-Z]+).*/\1/' <<<"$found")$(grep -o ' ERROR: .*' <<<"$found")" ;;
    *) echo "${words[0]}: $(sed -E 's/[0-9]+/N/g' <<<"$found")" ;;
  esac
done
