//! The functions that statements can call: those of values, and those that need the session.
//!
//! Subscripts and slices of arrays are functions too, so that the rest of the room sees calls
//! only.

use super::row_place::{ROW_VERSION, version_of};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Datum;
use crate::types::Kind::{
    self, AnyArray, AnyElement, Bool, Int4, Int8, Jsonb, Name, Oid, Regclass, Text, Void,
};
use crate::types::function::array::{element, slice};
use crate::types::function::array_assign::{with_element, with_slice};
use crate::types::function::json::made_jsonb;
use crate::types::function::monitor::ABOUT_MONITORING;
use crate::types::function::session::{
    ABOUT_ACTIVITY, ABOUT_COLUMNS_AND_ROLES, ABOUT_OBJECTS, ABOUT_PRIVILEGES, EXPANDERS,
    VECTOR_EXPANDERS,
};
use crate::types::function::{Function, Functions};
use crate::types::json::Json;
use std::sync::LazyLock;

const INTEGERS: Kind = Kind::Array(&Int4);
const TEXTS: Kind = Kind::Array(&Text);
const NAMES: Kind = Kind::Array(&Name);
const TIDS: Kind = Kind::Array(&Kind::Tid);

/// Functions that the session runs, and forms of the grammar that are functions.
const TABLE: &[Function] = &[
    Function::host("nextval", &[Regclass], Int8),
    Function::host("currval", &[Regclass], Int8),
    Function::host("lastval", &[], Int8),
    Function::host("setval", &[Regclass, Int8], Int8),
    Function::host("setval", &[Regclass, Int8, Bool], Int8),
    // Of identity columns, and of a sequence that is read: no text of a client has their names.
    Function::host("\0nextval", &[Regclass], Int8),
    Function::host("\0sequence_state", &[Regclass], Kind::Array(&Int8)),
    Function::host("pg_sequence_last_value", &[Regclass], Int8),
    Function::host("pg_backend_pid", &[], Int4).stable(),
    Function::host("current_setting", &[Text], Text).stable(),
    Function::host("current_setting", &[Text, Bool], Text).stable(),
    Function::host("set_config", &[Text, Text, Bool], Text),
    Function::host("current_schema", &[], Name).stable(),
    Function::host("current_schemas", &[Bool], NAMES).stable(),
    Function::host("current_database", &[], Name).stable(),
    Function::host("current_catalog", &[], Name).stable(),
    Function::host("current_user", &[], Name).stable(),
    Function::host("session_user", &[], Name).stable(),
    Function::host("user", &[], Name).stable(),
    Function::host("current_role", &[], Name).stable(),
    Function::host("version", &[], Text).stable(),
    Function::host("pg_get_userbyid", &[Oid], Name).stable(),
    Function::host("pg_sleep", &[Kind::Float8], Void),
    Function::host("pg_sleep_for", &[Kind::Interval], Void),
    // A cast to a domain calls it for a value that breaks one of the domain's conditions.
    Function::scalar("domain_violation", &[Text, Text], Void, |_, a| {
        let (domain, check) = (a[0].str()?, a[1].str()?);
        Err(domain_violation(domain, check))
    })
    .volatile(),
    // Reading a materialized view that has no rows yet calls it.
    Function::scalar("not_populated", &[Text], Bool, |_, a| {
        let message = format!(
            "materialized view \"{}\" has not been populated",
            a[0].str()?
        );
        let hint = "Use the REFRESH MATERIALIZED VIEW command.";
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        Err(SqlError::new(state, message).hint(hint))
    })
    .volatile(),
    // The place of a row of a table with this key, and the key of a place.
    Function::host("\0ctid", &[Oid, Kind::Any], Kind::Tid)
        .variadic()
        .stable(),
    Function::host("\0ctid_key", &[Oid, Kind::Tid], Int8).stable(),
    Function::host("\0ctid_key", &[Oid, TIDS], Kind::Array(&Int8)).stable(),
    Function::scalar(ROW_VERSION, &[Kind::Record], Kind::Xid, |_, a| {
        Ok(Datum::Oid(version_of(&a[0])))
    }),
    Function::host("pg_advisory_unlock_all", &[], Void),
    Function::host("pg_notify", &[Text, Text], Void).nullable(),
    Function::scalar(
        "array_subscript",
        &[AnyArray, INTEGERS],
        AnyElement,
        |_, a| {
            let subscripts: Option<Vec<i32>> = ends(&a[1])?.into_iter().collect();
            subscripts.map_or(Ok(Datum::Null), |subscripts| element(&a[0], &subscripts))
        },
    )
    .variadic(),
    Function::scalar(
        "array_assign",
        &[AnyArray, AnyElement, INTEGERS],
        AnyArray,
        |context, a| {
            let Some(subscripts) = ends(&a[2])?.into_iter().collect::<Option<Vec<i32>>>() else {
                return Err(null_subscript("array"));
            };
            let element = context.result_type.kind.element().unwrap_or(Text);
            with_element(&a[0], element, &subscripts, a[1].clone())
        },
    )
    .nullable(),
    Function::scalar(
        "array_assign_slice",
        &[AnyArray, AnyArray, INTEGERS],
        AnyArray,
        |context, a| {
            let ends = ends(&a[2])?;
            let bounds: Vec<_> = ends
                .chunks_exact(2)
                .map(|pair| (pair[0], pair[1]))
                .collect();
            let element = context.result_type.kind.element().unwrap_or(Text);
            with_slice(&a[0], element, &bounds, &a[1])
        },
    )
    .nullable(),
    // Its last argument says whether the first step is a number, for a value that is NULL.
    Function::scalar(
        "jsonb_assign",
        &[Jsonb, Jsonb, TEXTS, Bool],
        Jsonb,
        |_, a| {
            let path = a[2].array()?.elements.iter();
            let path = path.map(|step| match step {
                Datum::Null => Err(null_subscript("jsonb")),
                step => step.str(),
            });
            let path = path.collect::<Result<Vec<_>>>()?;
            let mut json = match &a[0] {
                Datum::Null if a[3].bool()? => Json::Array(Vec::new()),
                Datum::Null => Json::object(Vec::new()),
                json => Json::clone(json.jsonb()?),
            };
            let value = match &a[1] {
                Datum::Null => Json::Null,
                value => Json::clone(value.jsonb()?),
            };
            json.assign(&path, &value)?;
            made_jsonb(json)
        },
    )
    .nullable(),
    Function::scalar("array_slice", &[AnyArray, INTEGERS], AnyArray, |_, a| {
        let Some(ends) = ends(&a[1])?.into_iter().collect::<Option<Vec<i32>>>() else {
            return Ok(Datum::Null);
        };
        let pairs = ends.chunks_exact(2);
        let bounds: Vec<_> = pairs.map(|pair| (Some(pair[0]), Some(pair[1]))).collect();
        slice(&a[0], &bounds)
    })
    .variadic(),
];

fn null_subscript(of: &str) -> SqlError {
    let message = format!("{of} subscript in assignment must not be null");
    SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
}

/// Advisory locks, by one number or two.
macro_rules! advisory {
    ($($name:literal $result:ident)*) => {
        &[$(
            Function::host($name, &[Int8], $result),
            Function::host($name, &[Int4, Int4], $result),
        )*]
    };
}

const ADVISORY: &[Function] = advisory! {
    "pg_advisory_lock" Void "pg_advisory_lock_shared" Void
    "pg_advisory_xact_lock" Void "pg_advisory_xact_lock_shared" Void
    "pg_try_advisory_lock" Bool "pg_try_advisory_lock_shared" Bool
    "pg_try_advisory_xact_lock" Bool "pg_try_advisory_xact_lock_shared" Bool
    "pg_advisory_unlock" Bool "pg_advisory_unlock_shared" Bool
};

/// Integers of an array; NULL is none.
fn ends(array: &Datum) -> Result<Vec<Option<i32>>> {
    let ends = array.array()?.elements.iter();
    let ends = ends.map(|end| match end {
        Datum::Null => Ok(None),
        end => end.int4().map(Some),
    });
    ends.collect()
}

/// All functions that statements can call.
pub fn functions() -> &'static Functions {
    static ALL: LazyLock<Functions> = LazyLock::new(|| {
        Functions::with(&[
            TABLE,
            ADVISORY,
            ABOUT_OBJECTS,
            EXPANDERS,
            VECTOR_EXPANDERS,
            ABOUT_PRIVILEGES,
            ABOUT_COLUMNS_AND_ROLES,
            ABOUT_ACTIVITY,
            ABOUT_MONITORING,
            super::standard::FUNCTIONS,
        ])
    });
    &ALL
}

/// The error of a value that breaks a condition of a domain; NOT NULL has no name.
pub fn domain_violation(domain: &str, check: &str) -> SqlError {
    let (state, message) = if check.is_empty() {
        let message = format!("domain {domain} does not allow null values");
        (SqlState::NOT_NULL_VIOLATION, message)
    } else {
        let message = format!("value for domain {domain} violates check constraint \"{check}\"");
        (SqlState::CHECK_VIOLATION, message)
    };
    SqlError::new(state, message).named(|names| {
        names.data_type = Some(domain.to_owned());
        names.constraint = (!check.is_empty()).then(|| check.to_owned());
    })
}
