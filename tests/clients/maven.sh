#!/usr/bin/env bash
# Programs of Java over pgjdbc: `prepare FOLDER GROUP:NAME:VERSION...` fetches what they need and prints the first one's
# version, `run FOLDER FILE` runs a file beside this script.
set -euo pipefail
case "$1" in
  prepare)
    command -v java >/dev/null && command -v mvn >/dev/null
    folder="$2"
    if [ ! -e "$folder/ready" ]; then
      mkdir -p "$folder"
      needed=
      for one in "${@:3}" org.postgresql:postgresql:42.7.8 org.slf4j:slf4j-nop:2.0.17; do
        IFS=: read -r group name version <<<"$one"
        needed+="<dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>"
      done
      echo "<project><modelVersion>4.0.0</modelVersion><groupId>clients</groupId><artifactId>clients</artifactId>" \
        "<version>1</version><dependencies>$needed</dependencies></project>" >"$folder/pom.xml"
      (cd "$folder" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars >log 2>&1) && touch "$folder/ready"
    fi
    echo "${3##*:}"
    ;;
  run)
    # Hibernate loads classes by their names, so they are compiled first.
    javac -nowarn -d "$2/classes" -cp "$2/jars/*" "$(dirname "$0")/$3.java"
    exec java -cp "$2/classes:$2/jars/*" "$3"
    ;;
esac
