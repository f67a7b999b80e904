#!/usr/bin/env bash
# Django's own tests of its database layer with --keepdb: `django.sh PYTHON FOLDER`, where the folder has Django's source.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
apps=(${APPS:-basic introspection transactions transaction_hooks queries aggregation aggregation_regress annotations expressions
  expressions_window expressions_case lookup ordering bulk_create get_or_create select_for_update delete constraints indexes
  m2m_through raw_query select_related update db_utils})
# Other files beside this one have the names of packages.
settings="$(mktemp -d)"
trap 'rm -rf "$settings"' EXIT
cp "$here/django_settings.py" "$settings"
export PYTHONPATH="$settings"
cd "$2"/tests
"$1" runtests.py --settings=django_settings --keepdb --noinput --parallel=1 "${apps[@]}"
