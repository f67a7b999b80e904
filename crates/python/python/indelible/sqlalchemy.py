"""The dialect of SQLAlchemy for `indelible:///path`.

It is PostgreSQL's dialect with this module under it: statements, types and reflection are the same,
parameters are written $1, and there is no server, host or password. `indelible:////var/shop` is an
absolute path, `indelible:///shop` one from the working directory; options of `connect` follow as a
query: `indelible:///shop?method=full-page-writes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import pool
from sqlalchemy.dialects.postgresql import base
from sqlalchemy.dialects.postgresql import json as postgresql_json
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.types import JSON, Interval

_LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


class _Decoded:
    """Documents come as objects already, except for a reader that the engine was given."""

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        read = dialect._json_deserializer
        if read is None:
            return None
        return lambda value: None if value is None else read(json.dumps(value))


class _Json(_Decoded, postgresql_json.JSON):
    pass


class _Jsonb(_Decoded, postgresql_json.JSONB):
    pass


class _Interval(base.INTERVAL):
    render_bind_cast = True


class _Compiler(base.PGCompiler):
    def fetch_clause(self, select: Any, **kw: Any) -> str:
        """The number of rows without the parentheses that PostgreSQL's dialect writes."""
        return super(base.PGCompiler, self).fetch_clause(select, **kw)


def _kept(found: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Reflected constraints and indexes, less what this database does not keep of them."""
    for key, value in found:
        for one in [value] if isinstance(value, dict) else value:
            one.pop("comment", None)
            one.pop("include_columns", None)
            one.get("dialect_options", {}).pop("postgresql_include", None)
        yield key, value


class IndelibleDialect(base.PGDialect):
    """PostgreSQL's dialect over `indelible`."""

    name = "postgresql"
    driver = "indelible"
    statement_compiler = _Compiler
    # Comments on constraints are checked for their names and forgotten.
    supports_constraint_comments = False
    default_paramstyle = "numeric_dollar"
    supports_statement_cache = True
    supports_native_decimal = True
    insertmanyvalues_implicit_sentinel = base.PGDialect.insertmanyvalues_implicit_sentinel
    colspecs = {
        **base.PGDialect.colspecs,
        JSON: _Json,
        postgresql_json.JSON: _Json,
        postgresql_json.JSONB: _Jsonb,
        Interval: _Interval,
    }

    @classmethod
    def import_dbapi(cls) -> Any:
        import indelible

        return indelible

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        if url.host or url.port or url.username or url.password:
            raise ArgumentError(
                "a database is a directory; write indelible:///path, and four slashes for "
                "an absolute one"
            )
        if not url.database:
            raise ArgumentError("the path is missing; write indelible:///path")
        options: dict[str, Any] = dict(url.query)
        for name in ("read_only", "create", "autocommit"):
            if name in options:
                options[name] = str(options[name]).lower() in ("1", "true", "yes", "on")
        if "pool_bytes" in options:
            options["pool_bytes"] = int(options["pool_bytes"])
        return [url.database], options

    def _get_server_version_info(self, connection: Any) -> tuple[int, int]:
        # The version of PostgreSQL whose SQL this is.
        return (15, 0)

    def get_isolation_level_values(self, dbapi_conn: Any) -> Any:
        return (*_LEVELS, "AUTOCOMMIT")

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.rollback()
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level in _LEVELS:
            setting = f"SET default_transaction_isolation = '{level.lower()}'"
            dbapi_connection._core.execute_script(setting)

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        if dbapi_connection.autocommit:
            return "AUTOCOMMIT"
        level = dbapi_connection._core.setting("default_transaction_isolation")
        return str(level or "read committed").upper()

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def get_multi_pk_constraint(self, *args: Any, **kw: Any) -> Any:
        return _kept(super().get_multi_pk_constraint(*args, **kw))

    def get_multi_foreign_keys(self, *args: Any, **kw: Any) -> Any:
        return _kept(super().get_multi_foreign_keys(*args, **kw))

    def get_multi_unique_constraints(self, *args: Any, **kw: Any) -> Any:
        return _kept(super().get_multi_unique_constraints(*args, **kw))

    def get_multi_check_constraints(self, *args: Any, **kw: Any) -> Any:
        return _kept(super().get_multi_check_constraints(*args, **kw))

    def get_multi_indexes(self, *args: Any, **kw: Any) -> Any:
        return _kept(super().get_multi_indexes(*args, **kw))

    def set_readonly(self, connection: Any, value: bool) -> None:
        setting = "on" if value else "off"
        connection._core.execute_script(f"SET default_transaction_read_only = {setting}")

    def get_readonly(self, connection: Any) -> bool:
        return bool(connection._core.setting("default_transaction_read_only") == "on")

    def do_ping(self, dbapi_connection: Any) -> bool:
        return not dbapi_connection._core.is_closed

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        return getattr(e, "sqlstate", None) in ("08003", "57P01", "57P03", "58030")
