#!/usr/bin/env bash
# SQLAlchemy's suite for dialects, with its general requirements, over psycopg: `sqlalchemy-suite.sh PYTHON`.
set -euo pipefail
here="$(mktemp -d)"
trap 'rm -rf "$here"' EXIT
cat >"$here/setup.cfg" <<END_OF_SETTINGS
[tool:pytest]
addopts = -p no:cacheprovider -q --tb=short -W ignore
python_files = test_suite.py
[sqla_testing]
requirement_cls = sqlalchemy.testing.requirements:SuiteRequirements
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
echo "from sqlalchemy.testing.suite import *  # noqa" >"$here/test_suite.py"
psql -XAtqc "CREATE SCHEMA test_schema"
cd "$here"
"$1" -m pytest test_suite.py
