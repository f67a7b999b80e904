#!/usr/bin/env bash
# psql: statements, errors with their place, notices, COPY both ways, variables, cursors by FETCH_COUNT, \gdesc, the socket.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
psql() { command psql -X "$@"; }
expect() {
  if [ "$1" != "$2" ]; then
    printf 'expected: %s\nfound: %s\n' "$2" "$1"
    exit 1
  fi
}
psql -v ON_ERROR_STOP=1 -q <<'END'
CREATE TABLE item (id integer PRIMARY KEY, name text NOT NULL, price numeric(8,2), made date);
INSERT INTO item VALUES (1, 'lamp', 19.90, '2024-01-31'), (2, 'chair', 49, NULL);
END
expect "$(psql -At -c 'SELECT * FROM item ORDER BY id')" $'1|lamp|19.90|2024-01-31\n2|chair|49.00|'
expect "$(psql -At -c 'SELECT 1; SELECT 2')" $'1\n2'
expect "$(psql -At -c '' -c ';' -c 'SELECT 3')" 3
expect "$(psql -At -c 'SELECT nmae FROM item' 2>&1 || true)" $'ERROR:  column "nmae" does not exist\nLINE 1: SELECT nmae FROM item\n               ^\nHINT:  Perhaps you meant to reference the column "item.name".'
expect "$(psql -c 'DROP TABLE IF EXISTS missing' 2>&1)" $'NOTICE:  table "missing" does not exist, skipping\nDROP TABLE'
expect "$(psql -v VERBOSITY=sqlstate -c "INSERT INTO item VALUES (1, 'x')" 2>&1 || true)" 'ERROR:  23505'
# Several statements are one transaction; the first failure undoes all.
psql -c "INSERT INTO item VALUES (3, 'a'); SELECT 1/0" >/dev/null 2>&1 && exit 1
expect "$(psql -At -c 'SELECT count(*) FROM item')" 2
psql -q -c "\copy (SELECT * FROM item ORDER BY id) TO '$folder/item.csv' CSV HEADER"
expect "$(cat "$folder/item.csv")" $'id,name,price,made\n1,lamp,19.90,2024-01-31\n2,chair,49.00,'
psql -q -c 'CREATE TABLE copied (LIKE item)' 2>/dev/null || psql -q -c 'CREATE TABLE copied (id integer, name text, price numeric, made date)'
expect "$(psql -c "\copy copied FROM '$folder/item.csv' CSV HEADER")" 'COPY 2'
expect "$(printf '3\ttab\\\\t\t\\N\t\\N\n\\.\n' | psql -c 'COPY copied FROM STDIN')" 'COPY 1'
expect "$(psql -At -c 'COPY copied TO STDOUT')" $'1\tlamp\t19.90\t2024-01-31\n2\tchair\t49.00\t\\N\n3\ttab\\\\t\t\\N\t\\N'
expect "$(printf '1\ty\n' | psql -v VERBOSITY=sqlstate -c 'COPY copied FROM STDIN' 2>&1 || true)" 'ERROR:  22P04'
expect "$(printf '1;lamp\n' | psql -v VERBOSITY=sqlstate -At -c "COPY copied (id, name) FROM STDIN (DELIMITER ';')" -c 'SELECT count(*) FROM copied')" $'COPY 1\n4'
expect "$(psql -At <<'END'
\set FETCH_COUNT 2
SELECT generate_series(1, 5);
END
)" $'1\n2\n3\n4\n5'
expect "$(psql -At <<'END'
SELECT id, name, price FROM item \gdesc
END
)" $'id|integer\nname|text\nprice|numeric(8,2)'
expect "$(psql -At <<'END'
\set id 2
SELECT name FROM item WHERE id = :id \gset
\echo :name
END
)" chair
expect "$(psql -At 2>/dev/null <<'END'
BEGIN;
SELECT 1/0;
SELECT 1;
ROLLBACK;
SELECT 'after';
END
)" $'BEGIN\nROLLBACK\nafter'
expect "$(PGOPTIONS='-c statement_timeout=200' psql -v VERBOSITY=sqlstate -c 'SELECT pg_sleep(30)' 2>&1 || true)" 'ERROR:  57014'
expect "$(PGHOST="$PGSOCKET" psql -At -c 'SELECT 4')" 4
expect "$(psql -At -c 'SHOW server_encoding')" UTF8
# Ctrl-C of psql is a request to cancel.
expect "$(timeout --foreground -s INT 1 psql -X -v VERBOSITY=sqlstate -c 'SELECT pg_sleep(30)' 2>&1)" $'Cancel request sent\nERROR:  57014'

# A server without --trust: nobody over TCP, then a role with its password alone; the owner over the socket.
"$INDELIBLE" create "$folder/locked" >/dev/null
certificates="$(dirname "$0")/../../crates/server/tests/certificates"
cp "$certificates/server.pem" "$certificates/server.key" "$folder"
chmod 600 "$folder/server.key"
: >"$folder/log"
"$INDELIBLE" serve "$folder/locked" --listen 127.0.0.1:0 --tls-cert "$folder/server.pem" --tls-key "$folder/server.key" \
  2>"$folder/log" &
server=$!
trap 'kill $server; wait $server; rm -r "$folder"' EXIT
PGPORT=
while [ -z "$PGPORT" ]; do
  sleep 0.05
  PGPORT="$(sed -n 's/^ready on 127.0.0.1:\([0-9]*\) .*/\1/p' "$folder/log")"
done
export PGPORT
refused="$(psql -w -c 'SELECT 1' 2>&1 || true)"
grep -q 'indelible role create DIR NAME' <<<"$refused"
printf 'p\xc3\xa4ss word\n' | "$INDELIBLE" role create "$folder/locked" tester
expect "$(PGPASSWORD='päss word' psql -At -c 'SELECT 5')" 5
# Encrypted: the certificate is that of the host, and the proof of the password is bound to it.
for mode in require "verify-full sslrootcert=$folder/server.pem channel_binding=require"; do
  expect "$(PGPASSWORD='päss word' psql "host=localhost sslmode=$mode" -c '\conninfo' | grep -o 'SSL connection')" 'SSL connection'
done
refused="$(PGPASSWORD='päss word' psql "sslmode=verify-full sslrootcert=$certificates/expired.pem" -c 'SELECT 1' 2>&1 || true)"
grep -q 'certificate verify failed' <<<"$refused"
# A certificate that has expired is not taken at a reload; the server goes on with the one that it has.
cp "$certificates/expired.pem" "$folder/server.pem"
kill -HUP $server
until grep -q 'has expired' "$folder/log"; do sleep 0.05; done
expect "$(PGPASSWORD='päss word' psql "sslmode=verify-full sslrootcert=$certificates/server.pem" -At -c 'SELECT 7')" 7
for user in tester nobody; do
  expect "$(PGPASSWORD=wrong psql -U $user -c 'SELECT 5' 2>&1 | sed 's/.*FATAL/FATAL/' || true)" \
    "FATAL:  password authentication failed for user \"$user\""
done
expect "$(PGHOST="$folder/locked" psql -At -c 'SELECT 6')" 6
