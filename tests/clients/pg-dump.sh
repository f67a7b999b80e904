#!/usr/bin/env bash
# pg_dump and pg_restore: a database of PostgreSQL moves here and back, and its dump stays the same.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export folder here
ours="host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE"

# A dump without the version, the words of psql's restricted mode, and the breaks of lines of a view's query.
plain() {
  sed -e '/^\\\(un\)\?restrict /d' -e '/^-- Dumped from database version/d' "$1" | tr -s '[:space:]' ' '
}
same() {
  if ! diff <(plain "$1" | sed 's/; /;\n/g') <(plain "$2" | sed 's/; /;\n/g'); then
    echo "$1 and $2 differ" >&2
    exit 1
  fi
}

move() {
  psql -X -q -v ON_ERROR_STOP=1 "$POSTGRES" -f "$here/pg-dump.sql" >/dev/null
  pg_dump "$POSTGRES" >"$folder/theirs.sql"
  # From PostgreSQL to us: roles are no part of a dump.
  psql -X -q -v ON_ERROR_STOP=1 "$ours" -c "CREATE ROLE $PGUSER SUPERUSER LOGIN"
  psql -X -q -v ON_ERROR_STOP=1 "$ours" -f "$folder/theirs.sql" >/dev/null
  pg_dump "$ours" >"$folder/ours.sql"
  same "$folder/theirs.sql" "$folder/ours.sql"
  # And back, as a text and as an archive.
  for name in text archive; do
    psql -X -q "$POSTGRES" -c "CREATE DATABASE $name" >/dev/null
    local address="${POSTGRES/postgres\?/$name?}"
    if [ "$name" = text ]; then
      psql -X -q -v ON_ERROR_STOP=1 "$address" -f "$folder/ours.sql" >/dev/null
    else
      pg_dump -Fc "$ours" >"$folder/ours.dump"
      pg_restore --exit-on-error -d "$address" "$folder/ours.dump"
    fi
    pg_dump "$address" >"$folder/$name.sql"
    same "$folder/theirs.sql" "$folder/$name.sql"
  done
  # A part of it, as statements.
  pg_dump --data-only --inserts -t shop.part_2025 "$ours" | grep -c '^INSERT INTO shop.part_2025 VALUES' | grep -Fx 21
  # What came here works on.
  psql -X -At -v ON_ERROR_STOP=1 "$ours" -c "INSERT INTO shop.\"Order\" (customer) VALUES (3) RETURNING id" | grep -Fx 203
  psql -X -At -v ON_ERROR_STOP=1 "$ours" -c "SELECT nextval('shop.ticket'), nextval('shop.down')" | grep -Fx '115|9'
}
export -f plain same move
export ours
env -u PGHOST -u PGPORT -u PGDATABASE POSTGRES_USER="$PGUSER" "$here/../sql/with-postgres" bash -euc move
