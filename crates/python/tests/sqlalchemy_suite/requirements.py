"""What the suite may ask for: PostgreSQL's dialect, less what this database does not have."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


class Requirements(SuiteRequirements):
    """Reasons stand beside what is closed."""

    @property
    def autocommit(self) -> Any:
        return exclusions.open()

    @property
    def isolation_level(self) -> Any:
        return exclusions.open()

    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"]
        return {"default": "READ COMMITTED", "supported": levels}

    @property
    def schemas(self) -> Any:
        # The suite wants a schema `test_schema` that someone has made before it runs.
        return exclusions.closed()

    @property
    def temp_table_reflection(self) -> Any:
        return exclusions.closed()
