#!/usr/bin/env bash
# Django's own tests of its database layer with --keepdb: `django.sh PYTHON FOLDER`, where the folder has Django's source.
# `django.accepted` beside it says which may fail, and why; it fails on any other, and names those that pass by now.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
apps=(${APPS:-basic introspection transactions transaction_hooks queries aggregation aggregation_regress annotations expressions
  expressions_window expressions_case lookup ordering bulk_create get_or_create select_for_update delete constraints indexes
  m2m_through raw_query select_related update db_utils})
# Other files beside this one have the names of packages.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp "$here/django_settings.py" "$work"
export PYTHONPATH="$work"
cd "$2"/tests
"$1" runtests.py --settings=django_settings --keepdb --noinput --parallel=1 "${apps[@]}" >"$work/output" 2>&1 || true
grep '^Ran [0-9]* tests' "$work/output" || { tail -20 "$work/output"; exit 1; }
sed -nE 's/^(ERROR|FAIL): [^ ]+ \(([a-zA-Z0-9_.]+)\).*/\2/p' "$work/output" | sort -u >"$work/failed"
sed -n 's/^\([a-zA-Z].*[^ ]\) *|.*/\1/p' "$here/django.accepted" | sort -u >"$work/accepted"
comm -13 "$work/failed" "$work/accepted" | sed 's/^/passes by now: /'
if [ -n "$(comm -23 "$work/failed" "$work/accepted")" ]; then
  cat "$work/output"
  comm -23 "$work/failed" "$work/accepted" | sed 's/^/fails, and is not accepted: /'
  exit 1
fi
