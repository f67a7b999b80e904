"""The suite that SQLAlchemy has for dialects; see `run` beside this file."""

from __future__ import annotations

from typing import Any

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing import provision  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403


@provision.temp_table_keyword_args.for_db("indelible")
def temporary(_config: Any, _engine: Any) -> dict[str, Any]:
    """The words of a temporary table."""
    return {"prefixes": ["TEMPORARY"]}


@provision.set_default_schema_on_connection.for_db("indelible")
def search(_config: Any, connection: Any, schema: str) -> None:
    """Makes a schema the first one that names are looked for in."""
    connection.autocommit = True
    connection.execute(f"SET search_path = '{schema}'")
    connection.autocommit = False
