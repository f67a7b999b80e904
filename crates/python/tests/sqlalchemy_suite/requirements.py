"""What the suite may ask for: all that PostgreSQL's dialect has, less what this database has not.

The suite closes by default what many databases do not have; `OPEN` is what this one has. These
stay closed:

- `computed_columns` and its kin: SQLAlchemy warns of each column without a kind before version 18.
- `constraint_comment_reflection`: comments on constraints are not kept.
- `index_reflects_included_columns`: columns of INCLUDE are not kept.
- `two_phase_transactions`: the dialect does not send PREPARE TRANSACTION yet.
- `materialized_views`, `fetch_percent`, `fetch_offset_with_options`, `nvarchar_types`,
  `legacy_unconditional_json_extract`, `emulated_lastrowid`, `dbapi_lastrowid`, `async_dialect`,
  `unique_index_reflect_as_unique_constraints`, `foreign_keys_reflect_as_index`: they are closed
  for PostgreSQL as well, or are another way to have the same.
- `repeated_column_foreign_keys`, `repeated_remote_col_foreign_keys`: a key names a column once.
- `window_range_non_numeric`: the bound of RANGE over dates is no parameter.
- `fetch_expression`: FETCH FIRST takes a number or a parameter, and no expression.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

OPEN = """
    aggregate_order_by array_type autocommit boolean_col_expressions check_constraint_reflection
    column_collation_reflection comment_reflection comment_reflection_full_unicode
    create_or_replace_view create_table_as create_temp_table_as cross_schema_fk_reflection ctes
    ctes_on_dml ctes_with_update_delete ctes_with_values date_historic datetime_historic
    datetime_interval datetime_timezone datetime_timezone_historic default_schema_name_switch
    deferrable_fks delete_from except_ expression_server_defaults fetch_first
    fetch_no_order_by fetch_ties fk_constraint_option_reflection_ondelete_noaction
    fk_constraint_option_reflection_ondelete_restrict
    fk_constraint_option_reflection_onupdate_restrict
    float_or_double_precision_behaves_generically foreign_key_constraint_name_reflection
    foreign_key_constraint_option_reflection_ondelete
    foreign_key_constraint_option_reflection_onupdate has_temp_table identity_columns
    identity_columns_standard implicit_default_schema index_ddl_if_exists
    indexes_check_column_order indexes_with_expressions infinity_floats
    inline_check_constraint_reflection intersect isolation_level json_type
    mod_operator_as_percent_sign nullsordering order_by_label_with_expression
    percent_schema_names precision_numerics_enotation_small
    precision_numerics_many_significant_digits precision_numerics_retains_significant_digits
    reflect_indexes_with_expressions reflect_table_options reflect_tables_no_columns
    reflects_pk_names regexp_match regexp_replace
    savepoints schema_create_delete schemas server_defaults
    skip_autocommit_rollback supports_bitwise_and supports_bitwise_not supports_bitwise_or
    supports_bitwise_shift supports_bitwise_xor supports_distinct_on table_ddl_if_exists
    table_value_constructor temp_table_comment_reflection temp_table_names temp_table_reflection
    temporary_views time_timezone timestamp_microseconds tuple_in unicode_ddl
    unique_constraints_reflect_as_index update_from uuid_data_type views window_functions
    window_range window_range_numeric
""".split()


class Requirements(SuiteRequirements):
    """Levels of isolation; the rest is in `OPEN`."""

    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"]
        return {"default": "READ COMMITTED", "supported": levels}


for _name in OPEN:
    setattr(Requirements, _name, property(lambda _self: exclusions.open()))
