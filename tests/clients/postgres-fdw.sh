#!/usr/bin/env bash
# postgres_fdw of a PostgreSQL 15 as a front: tables imported, read through cursors, joined, changed, in transactions.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export SERVER_PORT="$PGPORT"
psql -XAtq -v ON_ERROR_STOP=1 <<'SQL'
CREATE TABLE owner (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE pet (id bigint PRIMARY KEY, owner_id int REFERENCES owner, weight numeric(8,2), marks jsonb, tags text[], at timestamptz);
INSERT INTO owner SELECT g, 'o' || g FROM generate_series(1, 20) g;
CREATE TABLE tag (name text PRIMARY KEY, uses int);
CREATE TABLE note (text text, reads int);
INSERT INTO tag SELECT 't' || g, g FROM generate_series(1, 50) g;
INSERT INTO note SELECT 'n' || g % 7, g FROM generate_series(1, 50) g;
INSERT INTO pet SELECT g, 1 + g % 20, g + 0.25, jsonb_build_object('i', g), ARRAY['a', 't' || g % 3], '2024-02-29 12:00Z'
  FROM generate_series(1, 1000) g;
SQL
cat >"$PGSOCKET.front.sql" <<'SQL'
CREATE EXTENSION postgres_fdw;
CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw
  OPTIONS (host '127.0.0.1', port :'port', dbname 'db', fetch_size '70', use_remote_estimate 'off', sslmode 'disable');
CREATE USER MAPPING FOR CURRENT_USER SERVER there OPTIONS (user 'tester', password_required 'false');
IMPORT FOREIGN SCHEMA public FROM SERVER there INTO public;
SELECT count(*), sum(weight), min(at), max(tags) FROM pet;
SELECT o.name, count(*), sum(p.weight) FROM owner o JOIN pet p ON p.owner_id = o.id
  WHERE p.weight > 900 GROUP BY o.name ORDER BY o.name LIMIT 3;
SELECT id, marks->>'i', tags[2] FROM pet WHERE id IN (3, 4) ORDER BY id;
BEGIN;
INSERT INTO owner VALUES (21, 'new'), (22, 'other') RETURNING id;
UPDATE pet SET weight = weight + 1 WHERE id = 3 RETURNING weight;
UPDATE pet SET weight = weight + length(tags[1]) FROM owner o WHERE o.id = owner_id AND pet.id = 4 AND o.name = 'o5' RETURNING weight;
-- The front computes the new values of these, and changes each row by its place.
CREATE FUNCTION pg_temp.own(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1; END';
UPDATE pet SET weight = pg_temp.own(weight::int) WHERE id BETWEEN 900 AND 902 RETURNING id, weight;
UPDATE tag SET uses = pg_temp.own(uses) WHERE name IN ('t7', 't8') RETURNING name, uses;
DELETE FROM note WHERE pg_temp.own(reads) % 2 = 0 AND text = 'n3';
UPDATE note SET reads = pg_temp.own(reads) WHERE text = 'n3';
SELECT count(*), sum(reads) FROM note;
SAVEPOINT s;
DELETE FROM pet WHERE id > 10;
SELECT count(*) FROM pet;
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM pet;
\set ON_ERROR_STOP off
\set VERBOSITY sqlstate
INSERT INTO owner VALUES (21, 'again');
\set ON_ERROR_STOP on
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM pet ORDER BY id;
FETCH 1 FROM c;
MOVE 98 FROM c;
FETCH 1 FROM c;
COMMIT;
COPY owner FROM stdin;
30	copied
31	copied too
\.
SELECT count(*) FROM owner WHERE id >= 30;
TRUNCATE pet;
SELECT count(*) FROM pet;
CREATE TABLE parted (name text, uses int) PARTITION BY LIST (name);
CREATE FOREIGN TABLE parted_rest PARTITION OF parted DEFAULT SERVER there OPTIONS (table_name 'tag');
INSERT INTO parted VALUES ('u1', 1), ('u2', 2);
SELECT sum(uses) FROM parted WHERE name LIKE 'u%';
SQL
# The front is a PostgreSQL of its own, on a socket.
found="$(env -u PGHOST -u PGPORT -u PGDATABASE -u PGSSLMODE "$here/../sql/with-postgres" \
  sh -c 'psql "$POSTGRES" -XAtq -v ON_ERROR_STOP=1 -v port="$SERVER_PORT" -f "$PGSOCKET.front.sql" 2>&1')" || { echo "$found"; exit 1; }
wanted="$(
  cat <<'END_OF_ROWS'
1000|500750.00|2024-02-29 12:00:00+00|{a,t2}
o1|6|5701.50
o10|5|4746.25
o11|5|4751.25
3|3|t0
4|4|t1
21
22
4.25
5.25
900|901.00
901|902.00
902|903.00
t7|8
t8|9
46|1182
10
1000
psql:FILE: ERROR:  23505
1
100
2
0
3
END_OF_ROWS
)"
found="$(sed 's/psql:[^ ]*: /psql:FILE: /' <<<"$found")"
diff <(echo "$wanted") <(echo "$found")
