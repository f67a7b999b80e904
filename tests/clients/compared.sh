#!/usr/bin/env bash
# A tool on a server of ours and on a PostgreSQL 15 of its own, with the same objects: `compared.sh NAME COMMAND...`. The command
# prints a line for each thing that it has asked for. Lines that only one of the two has, marked < for PostgreSQL and > for us,
# have to match an expression of NAME.accepted, each with its cause; expressions that match nothing any more are named.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export PGTOOL_SQL="$here/tools.sql"
psql -XAtq -v ON_ERROR_STOP=1 -f "$PGTOOL_SQL" >"$work/load" 2>&1 || { cat "$work/load"; exit 1; }
# The tool may fail with what it finds: its lines say so.
"${@:2}" >"$work/ours" 2>"$work/log" || true
cat >"$work/there" <<'END'
set -e
export PGHOST="${POSTGRES#*host=}" PGPORT=5432 PGDATABASE=postgres PGUSER=indelible PGSOCKET="${POSTGRES#*host=}"
psql -XAtq -v ON_ERROR_STOP=1 -c 'CREATE DATABASE db'
export PGDATABASE=db
psql -XAtq -v ON_ERROR_STOP=1 -f "$PGTOOL_SQL"
"$@"
END
env -u PGHOST -u PGPORT -u PGDATABASE -u PGSSLMODE POSTGRES_USER=indelible "$here/../sql/with-postgres" \
  sh "$work/there" "${@:2}" >"$work/wanted" 2>"$work/log.postgres" || true
if [ ! -s "$work/wanted" ]; then cat "$work/log.postgres"; exit 1; fi
LC_ALL=C sort -u "$work/ours" >"$work/ours.sorted"
LC_ALL=C sort -u "$work/wanted" >"$work/wanted.sorted"
diff "$work/wanted.sorted" "$work/ours.sorted" | grep '^[<>]' >"$work/differences" || true
sed -n 's/^\([^#].*[^ ]\)  *| .*/\1/p' "$here/$name.accepted" >"$work/accepted"
while IFS= read -r expression; do
  grep -qE -- "^$expression\$" "$work/differences" || echo "passes by now: $expression"
done <"$work/accepted"
sed 's/.*/^&$/' "$work/accepted" >"$work/expressions"
if grep -vEf "$work/expressions" "$work/differences" >"$work/left"; then
  sed 's/^/differs, and is not accepted: /' "$work/left"
  tail -5 "$work/log"
  exit 1
fi
echo "$(wc -l <"$work/wanted.sorted") lines, $(wc -l <"$work/differences") of them differ"
