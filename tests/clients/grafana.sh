#!/usr/bin/env bash
# Grafana's migrations: `prepare FOLDER` builds them from its module for Go and prints the version, `run FOLDER` runs them and
# prints a line for each column and index that they leave.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
version=6.1.6
case "$1" in
  prepare)
    command -v go >/dev/null
    mkdir -p "$2/mysqlerr" && cp "$here/grafana.go" "$2/main.go"
    if [ ! -e "$2/client" ] || [ "$here/grafana.go" -nt "$2/client" ]; then
      cd "$2"
      # A list of constants that the proxy does not have; one of them is used, with MySQL alone.
      printf 'module github.com/VividCortex/mysqlerr\n' >mysqlerr/go.mod
      printf 'package mysqlerr\n\nconst ER_DUP_ENTRY = 1062\n' >mysqlerr/mysqlerr.go
      [ -e go.mod ] || go mod init client
      go mod edit -replace github.com/VividCortex/mysqlerr=./mysqlerr
      go get "github.com/grafana/grafana@v$version+incompatible" github.com/go-xorm/xorm@v0.7.1 github.com/go-xorm/core@v0.6.2 github.com/lib/pq
      go mod tidy
      go build -o client .
    fi >"$2/log" 2>&1
    echo "$version"
    ;;
  run)
    "$2/client" 2>/dev/null | grep -E '^(migrations|failed)'
    psql -h "$PGSOCKET" -XAtq -F ' ' <<'END'
SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default FROM information_schema.columns
  WHERE table_schema = 'public';
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public';
SELECT 'done', count(*) FROM migration_log WHERE success;
END
    ;;
esac
