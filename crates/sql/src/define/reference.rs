//! Tables and columns to which foreign keys refer.
//!
//! A reference needs a key over the columns that it names, values that can be compared with its
//! own, and a table that lasts as long as the one that refers to it.

use crate::catalog::{Body, Deferral, Names, Object, Privilege, Rule, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::types::cast::{self, CastContext};
use crate::types::{Category, Kind, operator};
use std::sync::Arc;

impl Session {
    /// The table with a name to which a foreign key of another one refers, or of itself.
    pub(super) fn referred_table(
        &self,
        object: &Object,
        (schema, name): (Option<&str>, &str),
    ) -> Result<Arc<Object>> {
        let names = &self.environment.names;
        let is_own = schema.is_none() && name == object.name;
        let found = match names.find(Names::Relations, schema, name) {
            // A temporary table is found before others of its name once it is there.
            _ if is_own && self.is_temporary(object.namespace) => Arc::new(object.clone()),
            Some(found) if found.name != name => return Err(super::reindex::is_index(name)),
            Some(found) => Arc::clone(found),
            None if name == object.name => Arc::new(object.clone()),
            None => return Err(self.no_definition(schema, name)),
        };
        if !matches!(found.body, Body::Table(_)) {
            let message = format!("referenced relation \"{name}\" is not a table");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.check_reference_lasts(object, &found)?;
        if found.oid != object.oid {
            names.check(names.role, &found, Privilege::References.bit())?;
        }
        Ok(found)
    }
}

/// Fails if columns cannot refer to others.
pub(super) fn check_reference(
    name: &str,
    (body, columns): (&TableBody, &[usize]),
    (parent, parent_body, parent_columns): (&str, &TableBody, &[usize]),
) -> Result<()> {
    if columns.len() != parent_columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message));
    }
    let mut wanted = parent_columns.to_vec();
    wanted.sort_unstable();
    let keys = parent_body.constraints.iter();
    let keys = keys.filter_map(|constraint| match &constraint.rule {
        Rule::Primary { columns, deferral } | Rule::Unique { columns, deferral } => {
            let mut columns = columns.clone();
            columns.sort_unstable();
            (columns == wanted).then_some(*deferral)
        }
        _ => None,
    });
    // One that is checked at once is enough.
    let keys: Vec<Deferral> = keys.collect();
    if !keys.is_empty() && keys.iter().all(|deferral| *deferral != Deferral::Never) {
        let message =
            format!("cannot use a deferrable unique constraint for referenced table \"{parent}\"");
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        return Err(SqlError::new(state, message));
    }
    // A unique index over plain columns will do.
    let is_indexed = parent_body.indexes.iter().any(|index| {
        let mut columns = index.columns.clone();
        columns.sort_unstable();
        index.is_unique && parent_body.form(index.oid).is_none() && columns == wanted
    });
    if keys.is_empty() && !is_indexed {
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{parent}\""
        );
        return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message));
    }
    for (&own, &other) in columns.iter().zip(parent_columns) {
        let (own, other) = (&body.columns[own], &parent_body.columns[other]);
        let kinds = [own.data_type.kind, other.data_type.kind];
        if !may_refer(kinds) {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            let detail = format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                own.name, other.name, own.data_type, other.data_type
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail));
        }
    }
    Ok(())
}

/// Whether values of one kind may refer to keys of another: they are compared as keys, either
/// directly or after a conversion that needs no word.
fn may_refer([own, referred]: [Kind; 2]) -> bool {
    const ALIKE: [&[Kind]; 3] = [
        &[Kind::Int2, Kind::Int4, Kind::Int8],
        &[Kind::Float4, Kind::Float8],
        &[Kind::Date, Kind::Timestamp, Kind::Timestamptz],
    ];
    let is_text = |kind: Kind| kind.category() == Category::String;
    let are_alike = ALIKE
        .iter()
        .any(|kinds| kinds.contains(&own) && kinds.contains(&referred));
    let is_fit = own == referred
        || are_alike
        || is_text(own) && is_text(referred)
        || cast::can_coerce(own, referred, CastContext::Implicit);
    is_fit && operator::resolve("=", &[own, referred]).is_ok()
}
