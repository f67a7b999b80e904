#!/usr/bin/env bash
# The status page in a headless Chromium: its data with the token, nothing without it, no statement with its constants.
set -euo pipefail

folder="$(mktemp -d)"
"$INDELIBLE" create "$folder/shop" >/dev/null
: >"$folder/log"
"$INDELIBLE" serve "$folder/shop" --listen 127.0.0.1:0 --http 127.0.0.1:0 --trust 2>"$folder/log" &
server=$!
trap 'kill $server; wait $server; rm -r "$folder"' EXIT
until grep -q '^status page .*http:' "$folder/log" && grep -q '^ready on .* ' "$folder/log"; do sleep 0.05; done
sleep 0.1
page="$(sed -n 's/^status page.* \(http:.*\)/\1/p' "$folder/log")"
PGPORT="$(sed -n 's/^ready on 127.0.0.1:\([0-9]*\) .*/\1/p' "$folder/log")"
export PGPORT

# The page as it is after some seconds, with what its scripts have made of it.
look() {
  chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/profile" --virtual-time-budget=9000 \
    --enable-logging=stderr "$@" 2>"$folder/console"
  if grep -E 'CONSOLE.*(Error|Refused)' "$folder/console"; then exit 1; fi
}
has() {
  if ! grep -qF "$1" "$folder/page"; then
    echo "the page has no: $1" >&2
    cat "$folder/page" >&2
    exit 1
  fi
}

psql -X -q -c 'CREATE TABLE item (id int PRIMARY KEY)' -c 'INSERT INTO item SELECT generate_series(1, 100)'
PGAPPNAME='<b>bold</b>' psql -X -q -c "SELECT pg_sleep(60), 'secret word'" >/dev/null 2>&1 &
sleeper=$!
# One session waits for the end of another one.
psql -X -q -c 'BEGIN' -c 'UPDATE item SET id = 0 WHERE id = 1' -c 'SELECT pg_sleep(60)' >/dev/null 2>&1 &
holder=$!
until [ "$(psql -X -At -c "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'")" -ge 1 ]; do sleep 0.05; done
psql -X -q -c 'DELETE FROM item WHERE id = 1' >/dev/null 2>&1 &
waiter=$!
until [ "$(psql -X -At -c "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%secret word%'")" -ge 2 ]; do sleep 0.05; done
look --dump-dom "$page" >"$folder/page"
has 'SELECT pg_sleep(?), ?'
# A name is a text, never a part of the page.
has '&lt;b&gt;bold&lt;/b&gt;'
has 'committed data survives'
has 'fences a commit'
has 'waits for'
has 'DELETE FROM item WHERE id = ?'
has 'opened in ms'
has '<polyline'
if grep -q 'secret word' "$folder/page"; then
  echo 'the page has a constant' >&2
  exit 1
fi
look --dump-dom "${page%#*}" >"$folder/page"
has 'ends with a token'
if grep -q 'pg_sleep' "$folder/page"; then
  echo 'the page has statements without the token' >&2
  exit 1
fi
if [ -n "${SCREENSHOT:-}" ]; then
  look --window-size=1200,1000 --screenshot="$SCREENSHOT" "$page" >/dev/null
fi
psql -X -q -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()" >/dev/null
wait $sleeper $holder $waiter || true
