#!/usr/bin/env bash
# SQLAlchemy's suite for dialects, with what its own tests say of PostgreSQL, over psycopg: `sqlalchemy-suite.sh PYTHON
# SOURCE`, where the folder has SQLAlchemy's source. `sqlalchemy-suite.accepted` beside it says which tests may fail, and
# why; it fails on any other, and names those that pass by now.
set -euo pipefail
beside="$(cd "$(dirname "$0")" && pwd)"
here="$(mktemp -d)"
trap 'rm -rf "$here"' EXIT
cat >"$here/setup.cfg" <<END_OF_SETTINGS
[tool:pytest]
addopts = -p no:cacheprovider -q --tb=short -W ignore
python_files = test_suite.py
[sqla_testing]
requirement_cls = ours:Requirements
profile_file = $here/profiles.txt
[db]
default = postgresql+psycopg://$PGUSER@/$PGDATABASE?host=$PGHOST&port=${PGPORT:-5432}
END_OF_SETTINGS
cat >"$here/conftest.py" <<'END_OF_FILE'
import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa

from sqlalchemy.dialects.postgresql import provision

# It would make these extensions, which no test of the suite uses.
provision._extensions.clear()
END_OF_FILE
cat >"$here/ours.py" <<'END_OF_FILE'
from sqlalchemy.testing import exclusions
from test.requirements import DefaultRequirements


class Requirements(DefaultRequirements):
    @property
    def materialized_views(self):
        return exclusions.closed()
END_OF_FILE
echo "from sqlalchemy.testing.suite import *  # noqa" >"$here/test_suite.py"
psql -XAtqc "CREATE SCHEMA test_schema"
cd "$here"
ln -s "$2/test" test
PYTHONPATH="$here" "$1" -m pytest test_suite.py "${@:3}" >output 2>&1 || true
tail -1 output
sed -nE 's/^(FAILED|ERROR) [^:]*::([A-Za-z0-9]*)[^:]*::([a-z_0-9]*).*/\2.\3/p' output | sort -u >failed
sed -n 's/^\([a-zA-Z].*[^ ]\) *|.*/\1/p' "$beside/sqlalchemy-suite.accepted" | sort -u >accepted
comm -13 failed accepted | sed 's/^/passes by now: /'
if [ -n "$(comm -23 failed accepted)" ]; then
  cat output
  comm -23 failed accepted | sed 's/^/fails, and is not accepted: /'
  exit 1
fi
