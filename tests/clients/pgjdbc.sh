#!/usr/bin/env bash
# pgjdbc: `prepare FOLDER` fetches it and prints its version, `run FOLDER` runs the program beside this script.
set -euo pipefail
version=42.7.8
case "$1" in
  prepare)
    command -v java >/dev/null && command -v mvn >/dev/null
    if [ ! -e "$2/postgresql-$version.jar" ]; then
      mvn -q -B dependency:copy -Dartifact="org.postgresql:postgresql:$version:jar" -DoutputDirectory="$2" >/dev/null 2>&1
    fi
    echo "$version"
    ;;
  run) exec java -cp "$2/postgresql-$version.jar" "$(dirname "$0")/Pgjdbc.java" ;;
esac
