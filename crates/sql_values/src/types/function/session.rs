//! Names, arguments and results of functions that a session runs.
//!
//! They are apart from what the functions do, as the catalogue shows all functions, and some of
//! these look at the catalogue.

use crate::error::Result;
use crate::types::datum::Datum;
use crate::types::kind::Kind::{
    self, Bool, Char, Float8, Int2, Int4, Int8, Name, NodeTree, Numeric, Regclass, Regtype, Text,
};
use crate::types::numeric::Numeric as Number;
use crate::types::signature::{Body, Function};

const NUMBERS: Kind = Kind::Array(&Int4);
const TEXTS: Kind = Kind::Array(&Text);
const OID: Kind = Kind::Oid;

const fn about(name: &'static str, arguments: &'static [Kind], result: Kind) -> Function {
    Function::host(name, arguments, result).stable()
}

/// Functions about objects.
pub const ABOUT_OBJECTS: &[Function] = &[
    about(
        "pg_index_column_has_property",
        &[Regclass, Int4, Text],
        Bool,
    ),
    about("pg_index_has_property", &[Regclass, Text], Bool),
    about("pg_indexam_has_property", &[OID, Text], Bool),
    about("format_type", &[OID, Int4], Text).nullable(),
    about("oidvectortypes", &[Kind::OidVector], Text),
    about("pg_get_expr", &[NodeTree, OID], Text),
    about("pg_get_expr", &[NodeTree, OID, Bool], Text),
    about("pg_get_constraintdef", &[OID], Text),
    about("pg_get_constraintdef", &[OID, Bool], Text),
    about("pg_get_indexdef", &[OID], Text),
    about("pg_get_indexdef", &[OID, Int4, Bool], Text),
    about("pg_get_viewdef", &[OID], Text),
    about("pg_get_viewdef", &[OID, Bool], Text),
    about("pg_get_viewdef", &[OID, Int4], Text),
    about("pg_get_viewdef", &[Text], Text),
    about("pg_get_viewdef", &[Text, Bool], Text),
    about("pg_get_ruledef", &[OID], Text),
    about("pg_get_ruledef", &[OID, Bool], Text),
    about("pg_get_triggerdef", &[OID], Text),
    about("pg_get_triggerdef", &[OID, Bool], Text),
    about("pg_get_partkeydef", &[OID], Text),
    about("pg_get_partition_constraintdef", &[OID], Text),
    about("pg_get_statisticsobjdef", &[OID], Text),
    about("pg_get_statisticsobjdef_columns", &[OID], Text),
    about("pg_get_statisticsobjdef_expressions", &[OID], TEXTS),
    about("pg_get_function_arguments", &[OID], Text),
    about("pg_get_function_identity_arguments", &[OID], Text),
    about("pg_get_function_result", &[OID], Text),
    about("pg_get_function_arg_default", &[OID, Int4], Text),
    about("pg_get_function_sqlbody", &[OID], Text),
    about("pg_get_functiondef", &[OID], Text),
    about("pg_get_serial_sequence", &[Text, Text], Text),
    about("pg_table_is_visible", &[OID], Bool),
    about("pg_type_is_visible", &[OID], Bool),
    about("pg_function_is_visible", &[OID], Bool),
    about("pg_operator_is_visible", &[OID], Bool),
    about("pg_opclass_is_visible", &[OID], Bool),
    about("pg_opfamily_is_visible", &[OID], Bool),
    about("pg_collation_is_visible", &[OID], Bool),
    about("pg_conversion_is_visible", &[OID], Bool),
    about("pg_statistics_obj_is_visible", &[OID], Bool),
    about("pg_ts_config_is_visible", &[OID], Bool),
    about("pg_ts_dict_is_visible", &[OID], Bool),
    about("pg_ts_parser_is_visible", &[OID], Bool),
    about("pg_ts_template_is_visible", &[OID], Bool),
    about("obj_description", &[OID, Name], Text),
    about("obj_description", &[OID], Text),
    about("col_description", &[OID, Int4], Text),
    about("shobj_description", &[OID, Name], Text),
    about("to_regclass", &[Text], Regclass),
    about("to_regtype", &[Text], Regtype),
    about("to_regproc", &[Text], Kind::Regproc),
    about("to_regprocedure", &[Text], Kind::Regprocedure),
    about("to_regoper", &[Text], Kind::Regoper),
    about("to_regnamespace", &[Text], Kind::Regnamespace),
    about("to_regrole", &[Text], Kind::Regrole),
    about("pg_relation_is_publishable", &[Regclass], Bool),
    about("pg_relation_filenode", &[Regclass], OID),
    about("pg_partition_root", &[Regclass], Regclass),
    about_set("pg_partition_ancestors", &[Regclass], Regclass).columns(&[("relid", Regclass)]),
    about_set("pg_partition_tree", &[Regclass], Kind::Record).columns(&[
        ("relid", Regclass),
        ("parentrelid", Regclass),
        ("isleaf", Bool),
        ("level", Int4),
    ]),
    about("pg_describe_object", &[OID, OID, Int4], Text),
    about("acldefault", &[Char, OID], TEXTS),
    about_set("aclexplode", &[TEXTS], Kind::Record).columns(&[
        ("grantor", OID),
        ("grantee", OID),
        ("privilege_type", Text),
        ("is_grantable", Bool),
    ]),
    about_set("pg_options_to_table", &[TEXTS], Kind::Record)
        .columns(&[("option_name", Text), ("option_value", Text)]),
    about("pg_encoding_to_char", &[Int4], Name),
    about("pg_char_to_encoding", &[Name], Int4),
    about("pg_client_encoding", &[], Name),
    about("getdatabaseencoding", &[], Name),
    about("pg_tablespace_location", &[OID], Text),
    about_set("pg_tablespace_databases", &[OID], OID),
    about("pg_my_temp_schema", &[], OID),
    about("pg_is_other_temp_schema", &[OID], Bool),
    about("pg_collation_for", &[Kind::Any], Text).nullable(),
    about("pg_column_is_updatable", &[Regclass, Int2, Bool], Bool),
    about("pg_relation_is_updatable", &[Regclass, Bool], Int4),
];

/// A function that gives a set of rows.
const fn about_set(name: &'static str, arguments: &'static [Kind], result: Kind) -> Function {
    Function::with_body(name, arguments, result, Body::HostSet(name)).stable()
}

/// `_pg_expandarray` over arrays of each of these kinds. Types of its rows have numbers that no
/// relation has.
macro_rules! expanders {
    ($($number:literal $kind:ident)*) => {
        /// The numbers of these types, and the kinds of the elements.
        pub const EXPANDED: &[(u32, Kind)] = &[$(($number, Kind::$kind)),*];

        /// The functions.
        pub const EXPANDERS: &[Function] = &[$(about_set(
            "_pg_expandarray",
            &[Kind::Array(&Kind::$kind)],
            Kind::Composite($number),
        )),*];
    };
}

/// The same over vectors, which are not those arrays.
pub const VECTOR_EXPANDERS: &[Function] = &[
    about_set(
        "_pg_expandarray",
        &[Kind::Int2Vector],
        Kind::Composite(13_601),
    ),
    about_set(
        "_pg_expandarray",
        &[Kind::OidVector],
        Kind::Composite(13_602),
    ),
];

expanders! {
    13_601 Int2 13_602 Oid 13_603 Int4 13_604 Int8 13_605 Text 13_606 Name 13_607 Char
    13_608 Varchar 13_609 Bpchar 13_610 Bool 13_611 Numeric 13_612 Float4 13_613 Float8
    13_614 Uuid 13_615 Date 13_616 Time 13_617 Timetz 13_618 Timestamp 13_619 Timestamptz
    13_620 Interval 13_621 Json 13_622 Jsonb 13_623 Bytea 13_624 Regclass 13_625 Regtype
    13_626 Xid 13_627 Tid 13_628 Point 13_629 Regproc 13_630 Regprocedure 13_631 Record
}

/// The ways to name a role and an object: by name or number, or the role of the session.
macro_rules! forms {
    ($($name:literal)*) => {
        &[$(
            Function::host($name, &[Name, Text, Text], Bool).stable(),
            Function::host($name, &[Name, OID, Text], Bool).stable(),
            Function::host($name, &[OID, Text, Text], Bool).stable(),
            Function::host($name, &[OID, OID, Text], Bool).stable(),
            Function::host($name, &[Text, Text], Bool).stable(),
            Function::host($name, &[OID, Text], Bool).stable(),
        )*]
    };
}

/// Functions about privileges on an object.
pub const ABOUT_PRIVILEGES: &[Function] = forms! {
    "has_table_privilege" "has_any_column_privilege" "has_sequence_privilege"
    "has_schema_privilege" "has_database_privilege" "has_function_privilege"
    "has_language_privilege" "has_tablespace_privilege" "has_type_privilege"
    "has_foreign_data_wrapper_privilege" "has_server_privilege"
};

/// The same over a column of a table, and over roles.
pub const ABOUT_COLUMNS_AND_ROLES: &[Function] = &[
    Function::host("has_column_privilege", &[Text, Text, Text], Bool).stable(),
    Function::host("has_column_privilege", &[OID, Text, Text], Bool).stable(),
    Function::host("has_column_privilege", &[Text, Kind::Int2, Text], Bool).stable(),
    Function::host("has_column_privilege", &[OID, Kind::Int2, Text], Bool).stable(),
    Function::host("has_column_privilege", &[Name, Text, Text, Text], Bool).stable(),
    Function::host("has_column_privilege", &[Name, OID, Text, Text], Bool).stable(),
    Function::host("has_column_privilege", &[Name, OID, Kind::Int2, Text], Bool).stable(),
    Function::host("pg_has_role", &[Name, Name, Text], Bool).stable(),
    Function::host("pg_has_role", &[Name, OID, Text], Bool).stable(),
    Function::host("pg_has_role", &[OID, Name, Text], Bool).stable(),
    Function::host("pg_has_role", &[OID, OID, Text], Bool).stable(),
    Function::host("pg_has_role", &[Name, Text], Bool).stable(),
    Function::host("pg_has_role", &[OID, Text], Bool).stable(),
];

/// Functions about the server and its sessions.
pub const ABOUT_ACTIVITY: &[Function] = &[
    about("pg_relation_size", &[Regclass], Int8),
    about("pg_relation_size", &[Regclass, Text], Int8),
    about("pg_table_size", &[Regclass], Int8),
    about("pg_indexes_size", &[Regclass], Int8),
    about("pg_total_relation_size", &[Regclass], Int8),
    about("pg_database_size", &[Name], Int8),
    about("pg_database_size", &[OID], Int8),
    about("pg_tablespace_size", &[Name], Int8),
    about("pg_tablespace_size", &[OID], Int8),
    Function::scalar("pg_size_pretty", &[Int8], Text, |_, a| {
        pretty_size(&Number::from(a[0].int()?)).map(Datum::text)
    }),
    Function::scalar("pg_size_pretty", &[Numeric], Text, |_, a| {
        pretty_size(a[0].numeric()?).map(Datum::text)
    }),
    about("pg_is_in_recovery", &[], Bool),
    about("pg_is_wal_replay_paused", &[], Bool),
    about("pg_postmaster_start_time", &[], Kind::Timestamptz),
    about("pg_conf_load_time", &[], Kind::Timestamptz),
    about("pg_jit_available", &[], Bool),
    about("pg_stat_get_numscans", &[OID], Int8),
    about("pg_stat_get_tuples_inserted", &[OID], Int8),
    about("pg_stat_get_live_tuples", &[OID], Int8),
    about("pg_stat_get_dead_tuples", &[OID], Int8),
    about("txid_current", &[], Int8),
    about("txid_current_if_assigned", &[], Int8),
    about("inet_server_addr", &[], Text),
    about("inet_server_port", &[], Int4),
    about("inet_client_addr", &[], Text),
    about("inet_client_port", &[], Int4),
    about("pg_notification_queue_usage", &[], Float8),
    Function::with_body(
        "pg_listening_channels",
        &[],
        Text,
        Body::HostSet("pg_listening_channels"),
    )
    .stable(),
    about_set("pg_prepared_xact", &[], Kind::Record).columns(&[
        ("transaction", Kind::Xid),
        ("gid", Text),
        ("prepared", Kind::Timestamptz),
        ("ownerid", OID),
        ("dbid", OID),
    ]),
    Function::host("pg_blocking_pids", &[Int4], NUMBERS),
    Function::host("pg_safe_snapshot_blocking_pids", &[Int4], NUMBERS),
    Function::host(
        "pg_isolation_test_session_is_blocked",
        &[Int4, NUMBERS],
        Bool,
    ),
    Function::host("pg_cancel_backend", &[Int4], Bool),
    Function::host("pg_terminate_backend", &[Int4], Bool),
    Function::host("pg_terminate_backend", &[Int4, Int8], Bool),
    Function::host("pg_stat_statements_reset", &[OID, OID, Int8], Kind::Void).defaults(3),
];

/// A size in the first unit that gives fewer than five digits, as PostgreSQL rounds it: digits are
/// cut off at each unit but the last one, which rounds.
fn pretty_size(bytes: &Number) -> Result<String> {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    const SIZE_MAX: i64 = 10 * 1024;
    if bytes.abs() < Number::from(SIZE_MAX) {
        return Ok(format!("{bytes} bytes"));
    }
    // Halves of the unit, so that the last step rounds.
    let mut halves = bytes.divide_whole(&Number::from(512))?;
    let mut units = UNITS.iter().peekable();
    while let Some(unit) = units.next() {
        if halves.abs() < Number::from(2 * SIZE_MAX - 1) || units.peek().is_none() {
            let one = Number::from(if halves.signum() < 0 { -1 } else { 1 });
            let size = halves.add(&one)?.divide_whole(&Number::from(2))?;
            return Ok(format!("{size} {unit}"));
        }
        halves = halves.divide_whole(&Number::from(1024))?;
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::{Number, pretty_size};

    /// Expected texts are those of PostgreSQL 15.
    #[test]
    fn sizes_print_as_postgresql_prints_them() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (8192, "8192 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-1_000_000, "-977 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1 << 40, "1024 GB"),
        ] {
            assert_eq!(pretty_size(&Number::from(bytes)).unwrap(), text);
        }
    }
}
