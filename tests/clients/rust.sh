#!/usr/bin/env bash
# Clients written in Rust: `prepare CACHE NAME CRATE...` builds NAME/src/main.rs beside this script with the newest crates of these
# names (`CRATE+FEATURE,...` with features, `CRATE-` without the default ones) and prints the first one's version;
# `run CACHE NAME` runs it with the two addresses that it needs: the server of `run`, and one with a certificate.
# The programs share a target directory in the cache; nothing of it is part of our workspace.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cache="$2"
place="$cache/rust-$3"
case "$1" in
  prepare)
    command -v cargo >/dev/null
    mkdir -p "$place/src"
    cp "$here/$3/src/main.rs" "$place/src/main.rs"
    export CARGO_TARGET_DIR="$cache/rust-target" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
    if [ ! -e "$place/ready" ]; then
      printf '[package]\nname = "client-%s"\nedition = "2024"\n\n[workspace]\n' "$3" >"$place/Cargo.toml"
      for crate in "${@:4}"; do
        IFS=+ read -r name features <<<"$crate"
        chosen=()
        if [ "$name" != "${name%-}" ]; then chosen=(--no-default-features); fi
        if [ -n "$features" ]; then chosen+=(--features "$features"); fi
        cargo add --quiet --manifest-path "$place/Cargo.toml" "${name%-}" "${chosen[@]}"
      done
      touch "$place/ready"
    fi
    cargo build --quiet --manifest-path "$place/Cargo.toml"
    IFS=+ read -r name _ <<<"$4"
    cargo tree --quiet --manifest-path "$place/Cargo.toml" --depth 1 --prefix none | sed -n "s/^${name%-} v\([0-9.]*\).*/\1/p"
    ;;
  run)
    folder="$(mktemp -d)"
    certificates="$here/../../crates/server/tests/certificates"
    "$INDELIBLE" create "$folder/locked" >/dev/null
    printf 'p\xc3\xa4ss word\n' | "$INDELIBLE" role create "$folder/locked" tester
    cp "$certificates/server.key" "$folder"
    chmod 600 "$folder/server.key"
    : >"$folder/log"
    "$INDELIBLE" serve "$folder/locked" --listen 127.0.0.1:0 --tls-cert "$certificates/server.pem" --tls-key "$folder/server.key" \
      2>"$folder/log" &
    server=$!
    trap 'kill $server; wait $server; rm -r "$folder"' EXIT
    TLS_PORT=
    while [ -z "$TLS_PORT" ]; do
      sleep 0.05
      TLS_PORT="$(sed -n 's/^ready on 127.0.0.1:\([0-9]*\) .*/\1/p' "$folder/log")"
    done
    export TLS_PORT TLS_CERTIFICATE="$certificates/server.pem"
    cd "$folder"
    "$cache/rust-target/debug/client-$3"
    ;;
esac
