#!/usr/bin/env bash
# SQLAlchemy's suite for dialects, with what its own tests say of PostgreSQL, over psycopg: `sqlalchemy-suite.sh PYTHON
# SOURCE`, where the folder has SQLAlchemy's source.
set -euo pipefail
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
PYTHONPATH="$here" "$1" -m pytest test_suite.py "${@:3}"
